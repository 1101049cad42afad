"""The run engine: units in, journal rows out. It knows nothing of any benchmark."""
