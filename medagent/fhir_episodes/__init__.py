"""Episodes on a FHIR server: the session, its protocols, and the ways in which agents act in one."""
