"""The example in examples/own-loop runs with the real package; see `own_loops`."""

from own_loops import check

check("pydantic_agent.py:PydanticAgent")
