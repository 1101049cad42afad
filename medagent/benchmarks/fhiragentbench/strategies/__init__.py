"""The five published strategies: their agents, the tools with the published schemas, and the input cap."""
