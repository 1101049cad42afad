"""FHIR-AgentBench: questions about a hospital's patients; what was found and what was answered are graded apart."""
