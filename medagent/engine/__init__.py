"""The run engine: takes units, writes journal rows. It does not depend on any benchmark."""
