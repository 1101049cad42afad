"""`medagent mcp`: a benchmark's tasks, or a FHIR server, for any MCP client. Only `server` depends on MCP."""
