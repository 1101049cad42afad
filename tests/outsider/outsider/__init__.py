"""Somebody else's package: a benchmark, an agent and a chat model, found by the entry points of its `.dist-info`."""
