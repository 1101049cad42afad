"""Judges: models that label the answers of a run, for any benchmark.

A benchmark defines a `Rubric`: what a judge is asked about an answer, and how its reply is read. Everything else is
here: the panel, its prompt and digest, the journal of judgements, what is owed, and agreement.
"""
