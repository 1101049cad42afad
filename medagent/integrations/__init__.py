"""Adapters for tools that already run agents: one module for each tool, on top of the public API."""
