"""The interface between a set of tools and the MCP server: tools are data, and a call answers with text."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from medagent.models.base import Tool


@dataclass(frozen=True, slots=True)
class OfferedTool(Tool):
    """A tool with the hints that clients show and use to ask for permission. No tool is destructive."""

    title: str
    reads_only: bool = True
    idempotent: bool = True
    """Whether repeating a call changes nothing more."""
    output: dict[str, Any] | None = None
    """The JSON Schema of `ToolAnswer.data`; None without data."""


TOOLS = {
    tool["name"]: OfferedTool(**tool)
    for tool in json.loads(Path(__file__).with_name("tools.json").read_text(encoding="utf-8"))
}
"""The tools of both offers, by name."""


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """The reply to a call. `failed` tells the model that the call had no effect."""

    text: str
    failed: bool = False
    data: dict[str, Any] | None = None
    """The text's content as fields, for programs."""


async def _nowhere(seconds: float, message: str) -> None:
    """Progress of a caller that asked for none."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls. `session` is the client's session, which may end before the server does; empty if there is none."""

    session: str = ""
    progress: Callable[[float, str], Awaitable[None]] = _nowhere
    """Takes the seconds so far, and the current step."""


NOBODY = Caller()
"""A caller without a session, which gets no progress notifications."""


class Offer(Protocol):
    """Tools behind one MCP server; an async context manager."""

    @property
    def instructions(self) -> str:
        """A description of the tools as a whole, which a client may pass to its model."""

    @property
    def tools(self) -> Sequence[OfferedTool]:
        """The tools. They never change."""

    @property
    def remote(self) -> bool:
        """Whether calls reach another server."""

    async def call(self, name: str, arguments: dict[str, Any], caller: Caller = NOBODY) -> ToolAnswer:
        """Answer a call of one of the tools. The arguments match its schema."""

    async def leave(self, session: str) -> None:
        """End the episodes of a session, since its client has disconnected."""
