"""Reads and writes requests, responses, JSON, XML, Bundles and OperationOutcomes in HAPI's format."""
