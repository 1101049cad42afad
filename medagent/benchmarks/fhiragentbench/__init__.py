"""FHIR-AgentBench: questions about a hospital's patients. Retrieval and answer are graded separately."""
