"""The example in examples/own-loop runs with the real package; see `own_loops`."""

from own_loops import check

check("smol_agent.py:SmolAgent")
