"""A2A: `medagent a2a green` assesses an agent that speaks A2A, `medagent a2a purple` is one with a model behind it.

A purple agent is a model to a run: its address is the endpoint, a conversation is its context. So an assessment is a
run like every other, with its folder, journal and verdicts.
"""
