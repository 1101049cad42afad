"""The programs of one episode: starts a new interpreter if one is lost, and counts the requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from medagent.sandbox.base import CallError, Limits, Ran, Serve, Surface
from medagent.sandbox.interpreters import Interpreter, Interpreters
from medagent.sandbox.wording import program_text, stop_reason


class Programs:
    """An async context manager that ends its interpreter. `requests` is the number of requests of the episode."""

    def __init__(self, interpreters: Interpreters, surface: Surface, limits: Limits, serve: Serve) -> None:
        self._interpreters = interpreters
        self._surface = surface
        self.limits = limits
        self._serve = serve
        self._interpreter: Interpreter | None = None
        self.number = 0
        """The number of the last program."""
        self.requests = 0
        self._refused = False

    async def run(self, code: str) -> Ran:
        """Run the next program. Raises SandboxError if no interpreter starts, and the errors of `serve`."""
        if self._interpreter is None:
            self._interpreter = await self._interpreters.start(self._surface)
        self._refused = False
        self.number += 1
        ran = await self._interpreter.run(self.number, code, self._counted)
        if ran.ended:
            self._interpreter = None
        return replace(ran, limit="requests") if self._refused and ran.limit is None else ran

    def text(self, ran: Ran) -> str:
        """The reply to the agent about a program."""
        return program_text(ran, self.limits)

    async def _counted(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if name not in self._surface.uncounted:
            if self.requests >= self.limits.requests:
                self._refused = True
                raise CallError(stop_reason("requests", self.limits))
            self.requests += 1
        return await self._serve(name, args, kwargs)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._interpreter is not None:
            await self._interpreter.close()
