"""The words an agent reads, as data: one TOML file a protocol, and the list of FHIR functions."""
