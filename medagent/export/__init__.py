"""Writes runs in the forms of other tools: one module and one command of `medagent export` per form."""
