"""Search: search parameters, index rows of resources, queries, and their SQL."""
