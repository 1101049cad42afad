"""Inspect AI: every installed benchmark as its task, `inspect eval medagent/NAME`.

`source` is a benchmark in the words of another tool and knows nothing of Inspect; `model`, `solvers`, `tools`,
`scorers` and `tasks` are Inspect's. Inspect is imported nowhere else.
"""
