"""Inspect AI: every installed benchmark as an Inspect task, `inspect eval medagent/NAME`.

`source` adapts a benchmark for other tools and does not depend on Inspect. The other modules define Inspect's models,
solvers, tools, scorers and tasks. Nothing outside this package imports Inspect.
"""
