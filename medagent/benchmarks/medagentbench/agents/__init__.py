"""The bundled agents of MedAgentBench: the reference agent, and replay of recorded messages."""
