"""The command line: one module a command; parse, call, print. No logic, and nothing heavy imported at the top."""
