"""Writes runs in the formats of other tools: one module and one command of `medagent export` per format."""
