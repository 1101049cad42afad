"""FHIR data in files and servers: read, import, export, copy, push."""
