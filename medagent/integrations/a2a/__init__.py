"""A2A: `medagent a2a green` assesses an agent that speaks A2A; `medagent a2a purple` offers a model as an A2A agent.

A run treats a purple agent as a model: its address is the endpoint, and an A2A context is a conversation. So an
assessment is an ordinary run, with a folder, a journal and verdicts.
"""
