"""Types for text that comes from outside."""

from __future__ import annotations

from pydantic import InstanceOf

# pydantic's own `str` refuses lone surrogates, which models do produce; what a model said is kept as it is.
Text = InstanceOf[str]
