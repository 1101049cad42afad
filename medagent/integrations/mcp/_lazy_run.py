"""A played run that opens when its first episode starts.

Opening it may build the hospital, which takes longer than MCP hosts wait for `initialize`. And if the folder cannot be
used, the user reads why in the reply to a call, instead of losing the server.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack
from typing import Any, Self

from medagent.engine.benchmark import Say
from medagent.fhir_episodes.benchmark import FhirBenchmark
from medagent.fhir_episodes.played import PlayedRun, played_folder, played_source
from medagent.fhir_episodes.settings import FhirSettings
from medagent.integrations.mcp._offer import Caller

BEAT_S = 1.0
"""Seconds between progress notifications while a caller waits."""


class LazyRun:
    """The run of these settings; a context manager. Raises UserError for tasks that cannot be read."""

    def __init__(self, benchmark: FhirBenchmark[Any], settings: FhirSettings, say: Say) -> None:
        self._benchmark, self._settings, self._say = benchmark, settings, say
        self._stack = ExitStack()
        self._opening: asyncio.Task[PlayedRun] | None = None
        self._news = "opening the run"
        self.source = played_source(benchmark, settings)
        self.folder = played_folder(benchmark, settings, "mcp").absolute()

    async def opened(self, caller: Caller) -> PlayedRun:
        """The open run. The caller gets progress notifications. Raises UserError; the next call tries again."""
        if self._opening is None:
            self._opening = asyncio.create_task(self._open())
        opening, began = self._opening, time.monotonic()
        while not opening.done():
            await caller.progress(round(time.monotonic() - began, 3), self._news)
            await asyncio.wait({opening}, timeout=BEAT_S)
        if opening.exception() is not None:
            self._opening = None
        return opening.result()

    async def _open(self) -> PlayedRun:
        plan = PlayedRun.open(self._benchmark, self._settings, "mcp", "medagent mcp", self._report)
        run = await asyncio.to_thread(asyncio.run, plan)  # it may build the hospital
        return self._stack.enter_context(run)

    def _report(self, text: str) -> None:
        self._news = text
        self._say(text)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        if self._opening is not None:
            self._opening.cancel()
        self._stack.__exit__(*error)
