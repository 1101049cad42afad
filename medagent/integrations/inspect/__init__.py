"""Inspect AI: the four benchmarks as its tasks, `inspect eval medagent/medagentbench`.

`adapters` knows the benchmarks and nothing of Inspect; `model`, `solvers`, `tools`, `scorers` and `tasks` are Inspect's
words for it. An item is a unit of the run engine, carried out with Inspect's model in the place of an endpoint, and
what is kept of it is the row that `medagent run` would have kept: in the sample's store, where the scorer reads it, so
that a log is scored alike however it was made.
"""
