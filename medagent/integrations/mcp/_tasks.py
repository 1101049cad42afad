"""The tasks of a benchmark as tools: list them, start one, act, finish.

The newest MCP protocol does not use sessions, so every call names its episode by a handle. Clients never see an answer,
a verdict, or a patient's number that the task does not contain; an episode's result is written only to the run's
folder. An idle episode is ended by a timer.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import shlex
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from typing import Any, Self

from medagent.core.clock import wall_clock
from medagent.core.errors import EpisodeError, UserError
from medagent.engine.benchmark import Say
from medagent.fhir_episodes.benchmark import FhirBenchmark
from medagent.fhir_episodes.episode import EpisodeRow, EpisodeUnit
from medagent.fhir_episodes.episodes import Episode, open_episode
from medagent.fhir_episodes.played import PlayedRun, played_folder, played_source
from medagent.fhir_episodes.settings import FhirSettings
from medagent.fhir_episodes.tools import FINISH, Toolbox
from medagent.integrations.mcp._offer import NOBODY, TOOLS, Caller, OfferedTool, ToolAnswer

HANDLE = "episode"
BEAT_S = 1.0
"""Seconds between progress notifications while a caller waits."""
PAGE = 50
"""Tasks in one reply of list_tasks."""
_HANDLE = {"type": "string", "description": "The handle that start_task gave."}
LIST, START = TOOLS["list_tasks"], TOOLS["start_task"]


class LazyRun:
    """The run of these settings, opened when its first episode starts; a context manager. Opening it may build the
    hospital, which takes longer than MCP hosts wait for `initialize`. And if the folder cannot be used, the user reads
    why in the reply to a call, instead of losing the server. Raises UserError for tasks that cannot be read.
    """

    def __init__(self, benchmark: FhirBenchmark[Any], settings: FhirSettings, say: Say) -> None:
        self._benchmark = benchmark
        self._settings = settings
        self._say = say
        self._stack = ExitStack()
        self._opening: asyncio.Task[PlayedRun] | None = None
        self._news = "opening the run"
        self.source = played_source(benchmark, settings, "mcp")
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
        command = shlex.join(["medagent", "mcp", self._benchmark.reference or self._benchmark.name])
        plan = PlayedRun.open(self._benchmark, self._settings, "mcp", command, self._report)
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


@dataclass(slots=True)
class _Open:
    """An open episode, and the stack that closes it."""

    episode: Episode
    run: PlayedRun
    row: EpisodeRow
    session: str
    stack: AsyncExitStack
    clock: asyncio.TimerHandle | None = None
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Calls are executed one after the other."""
    began: float = field(default_factory=time.monotonic)


class TaskOffer:
    """Episodes over a run's tasks. `idle` is the number of seconds without a call after which an episode ends."""

    remote = False

    def __init__(self, run: LazyRun, idle: float) -> None:
        self._run = run
        self._idle = idle
        self._tasks = run.source.mixed
        self._open: dict[str, _Open] = {}
        self._ended: dict[str, str] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self.tools: Sequence[OfferedTool] = (LIST, START, *_episode_tools(run.source.toolbox))

    instructions = (
        "Tasks on a hospital's electronic health record (FHIR R4). Ask for list_tasks, begin one by start_task, act "
        "with the FHIR tools, and end it by finish; every call after start_task takes the episode's handle."
    )

    async def call(self, name: str, arguments: dict[str, Any], caller: Caller = NOBODY) -> ToolAnswer:
        if name == LIST.name:
            return self._listed(arguments.get("type"), arguments.get("cursor"))
        if name == START.name:
            return await self._started(arguments["task_id"], caller)
        rest = dict(arguments)
        handle = rest.pop(HANDLE)
        opened = self._open.get(handle)
        if opened is None:
            return ToolAnswer(self._ended.get(handle, "Unknown episode: start_task returns its handle."), failed=True)
        async with opened.turn:
            return await self._acted(handle, opened, name, rest)

    def _listed(self, kind: str | None, cursor: str | None) -> ToolAnswer:
        listed = [{"id": task.id, "type": task.group} for task in self._tasks.values() if kind in (None, task.group)]
        if not listed:
            kinds = sorted({task.group for task in self._tasks.values()})
            return ToolAnswer(f"Unknown type {kind!r}; the types are {', '.join(kinds)}", failed=True)
        ids = [task["id"] for task in listed]
        if cursor is not None and cursor not in ids:
            return ToolAnswer(f"Unknown cursor {cursor!r}; pass the next_cursor of a page", failed=True)
        first = ids.index(cursor) if cursor is not None else 0
        page: dict[str, Any] = {"tasks": listed[first : first + PAGE]}
        if ids[first + PAGE :]:
            page["next_cursor"] = ids[first + PAGE]
        return ToolAnswer(json.dumps(page), data=page)

    async def _started(self, task_id: str, caller: Caller) -> ToolAnswer:
        task = self._tasks.get(task_id)
        if task is None:
            return ToolAnswer(f"Unknown task {task_id!r}; list_tasks returns the tasks", failed=True)
        try:
            run = await self._run.opened(caller)
        except UserError as error:
            return ToolAnswer(str(error), failed=True)
        unit = EpisodeUnit(task.task, run.take_trial(task_id))
        stack = AsyncExitStack()
        try:
            episode = await stack.enter_async_context(open_episode(self._run.source, task, unit.key))
        except EpisodeError as failure:
            return ToolAnswer(f"The episode cannot begin: {failure}", failed=True)
        row = EpisodeRow.begin(unit)
        row.started = wall_clock()
        handle = secrets.token_urlsafe(12)
        opened = self._open[handle] = _Open(episode, run, row, caller.session, stack)
        instruction = episode.reset()
        self._wind(handle, opened)
        text = f"{instruction}\n\nThe episode's handle is {handle}: pass it as `{HANDLE}` with every call."
        return ToolAnswer(text, data={HANDLE: handle, "instruction": instruction})

    async def leave(self, session: str) -> None:
        for handle in [handle for handle, task in self._open.items() if session and task.session == session]:
            await self._end(handle, "cancelled", "the client left")

    async def _acted(self, handle: str, opened: _Open, name: str, arguments: dict[str, Any]) -> ToolAnswer:
        if handle not in self._open:  # it ended while this call waited for its turn
            return ToolAnswer(self._ended[handle], failed=True)
        self._wind(handle, opened)
        try:
            reply = await opened.episode.call(name, arguments)
        except EpisodeError as failure:
            await self._end(handle, failure.status, str(failure))
            return ToolAnswer("The episode has ended: the FHIR server failed.", failed=True)
        if not opened.episode.done:
            return ToolAnswer(reply, failed=opened.episode.failed)
        status = opened.episode.outcome.status or "completed"
        await self._end(handle, status)
        if status == "completed":
            return ToolAnswer("The episode has ended; your answers are saved.")
        return ToolAnswer(f"{reply}\n\nThe episode has ended: all its rounds are used.", failed=True)

    def _wind(self, handle: str, opened: _Open) -> None:
        """Restart the episode's idle timer."""
        if opened.clock is not None:
            opened.clock.cancel()
        opened.clock = asyncio.get_running_loop().call_later(self._idle, self._forget, handle)

    def _forget(self, handle: str) -> None:
        ending = asyncio.create_task(self._end(handle, "time_limit", f"nothing was done for {self._idle:g} s"))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    async def _end(self, handle: str, status: str, error: str | None = None) -> None:
        """Close an episode and save its row."""
        opened = self._open.pop(handle, None)
        if opened is None:
            return
        if opened.clock is not None:
            opened.clock.cancel()
        why = f": {error}" if error else ""
        self._ended[handle] = f"This episode has ended ({status}{why})."
        opened.row.take(opened.episode.outcome)
        opened.row.status, opened.row.error = status, error
        opened.row.seconds = round(time.monotonic() - opened.began, 3)
        try:
            await opened.stack.aclose()
        except EpisodeError as failure:
            opened.row.status, opened.row.error = failure.status, str(failure)
        await opened.run.keep(opened.row)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for handle in list(self._open):
            await self._end(handle, "cancelled", "the server was ended")
        await asyncio.gather(*self._ending)


def _episode_tools(toolbox: Toolbox) -> list[OfferedTool]:
    """The episode's tools, each with the handle as an additional parameter."""
    offered = []
    for tool in toolbox.tools():
        function = toolbox.functions.get(tool.name)
        schema = tool.parameters
        offered.append(
            OfferedTool(
                tool.name,
                "Ends the episode with the answers." if tool.name == FINISH.name else tool.description,
                {
                    **schema,
                    "properties": {HANDLE: _HANDLE, **schema.get("properties", {})},
                    "required": [HANDLE, *schema.get("required", [])],
                },
                title=tool.name.replace("_", " ").capitalize(),
                reads_only=function is not None and function.method != "POST",
                idempotent=function is None or function.method != "POST",
            )
        )
    return offered
