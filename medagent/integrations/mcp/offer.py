"""What a set of tools is to the MCP server: tools as data, and a call that answers with text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from medagent.models.base import Tool


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call is answered: `failed` tells the model that the call did not do what it should."""

    text: str
    failed: bool = False
    data: dict[str, Any] | None = None
    """The same as fields, for programs."""


class Offer(Protocol):
    """Tools behind one MCP server; an async context manager."""

    @property
    def instructions(self) -> str:
        """What a client may tell its model about the tools as a whole."""
        ...

    @property
    def tools(self) -> Sequence[Tool]:
        """The tools, always the same."""
        ...

    async def call(self, name: str, arguments: dict[str, Any]) -> Answer:
        """Answer a call of one of the tools, whose arguments fit its schema."""
        ...
