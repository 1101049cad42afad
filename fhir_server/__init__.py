"""fhir_server serves: an embedded FHIR R4 server that answers as HAPI FHIR does. Imports nothing of medagent."""
