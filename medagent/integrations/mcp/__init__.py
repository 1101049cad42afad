"""`medagent mcp`: a benchmark's tasks, or a FHIR server, for any MCP client. What is offered knows nothing of MCP."""
