"""Search: definitions of parameters, index rows of resources, and plans of queries."""
