"""The command line: one module per command, which parses, calls the API and prints. Heavy imports are in functions."""
