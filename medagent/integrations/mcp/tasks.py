"""The tasks of a benchmark with FHIR sessions as tools: list them, start one, act, finish.

The newest protocol has no session, so an episode is named by a handle in every call. Nothing that a client reads holds
an answer, a verdict or a patient's number that the task does not tell; what becomes of an episode is written into the
run's folder only. An episode that nobody goes on with is ended by a clock.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Self

from medagent.core.clock import wall_clock
from medagent.core.errors import EpisodeError
from medagent.fhir_episodes.episode import EpisodeRow, EpisodeUnit
from medagent.fhir_episodes.episodes import Episode, open_episode
from medagent.fhir_episodes.played import PlayedRun
from medagent.fhir_episodes.tools import FINISH
from medagent.integrations.mcp.offer import Answer
from medagent.models.base import Tool

HANDLE = "episode"
_HANDLE = {"type": "string", "description": "The handle that start_task gave."}
LIST = Tool(
    "list_tasks",
    "Lists the tasks: the id and the type of each.",
    {"type": "object", "properties": {"type": {"type": "string", "description": "Only tasks of this type."}}},
)
START = Tool(
    "start_task",
    "Starts a task over a fresh copy of the hospital's record. Gives the instruction, and an episode's handle for all "
    "further calls.",
    {
        "type": "object",
        "properties": {"task_id": {"type": "string", "description": "The id of a task, as list_tasks gives it."}},
        "required": ["task_id"],
    },
)


@dataclass(slots=True)
class _Open:
    """An episode under way, and what closes it."""

    episode: Episode
    row: EpisodeRow
    stack: AsyncExitStack
    clock: asyncio.TimerHandle | None = None
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Calls are carried out one after the other."""
    began: float = field(default_factory=time.monotonic)


class TaskOffer:
    """Episodes over a played run's tasks; `idle` is the seconds after which a forgotten one is ended."""

    def __init__(self, run: PlayedRun, idle: float) -> None:
        self._run, self._idle = run, idle
        self._tasks = {item.id: item for item in run.items}
        self._open: dict[str, _Open] = {}
        self._ended: dict[str, str] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self.tools: Sequence[Tool] = (LIST, START, *map(_with_handle, run.source.toolbox.tools()))

    instructions = (
        "Tasks on a hospital's electronic health record (FHIR R4). Ask for list_tasks, begin one by start_task, act "
        "with the FHIR tools, and end it by finish; every call after start_task takes the episode's handle."
    )

    async def call(self, name: str, arguments: dict[str, Any]) -> Answer:
        """See `Offer.call`."""
        if name == LIST.name:
            return self._listed(arguments.get("type"))
        if name == START.name:
            return await self._started(arguments["task_id"])
        rest = dict(arguments)
        handle = rest.pop(HANDLE)
        found = self._open.get(handle)
        if found is None:
            return Answer(
                self._ended.get(handle, "There is no such episode: start_task gives its handle."), failed=True
            )
        async with found.turn:
            return await self._acted(handle, found, name, rest)

    def _listed(self, kind: str | None) -> Answer:
        tasks = [{"id": task.id, "type": task.group} for task in self._tasks.values() if kind in (None, task.group)]
        if not tasks:
            kinds = sorted({task.group for task in self._tasks.values()})
            return Answer(f"There is no type {kind!r}; there are {', '.join(kinds)}", failed=True)
        return Answer(json.dumps(tasks), data={"tasks": tasks})

    async def _started(self, task_id: str) -> Answer:
        task = self._tasks.get(task_id)
        if task is None:
            return Answer(f"There is no task {task_id!r}; list_tasks names them", failed=True)
        unit = EpisodeUnit(task.task, self._run.take_trial(task_id))
        stack = AsyncExitStack()
        episode = await stack.enter_async_context(open_episode(self._run.source, task, unit.key))
        row = EpisodeRow.begin(unit)
        row.started = wall_clock()
        handle = secrets.token_urlsafe(12)
        found = self._open[handle] = _Open(episode, row, stack)
        instruction = episode.reset()
        self._wind(handle, found)
        text = f"{instruction}\n\nThe episode's handle is {handle}: pass it as `{HANDLE}` with every call."
        return Answer(text, data={HANDLE: handle, "instruction": instruction})

    async def _acted(self, handle: str, found: _Open, name: str, arguments: dict[str, Any]) -> Answer:
        if handle not in self._open:  # it ended while this call waited its turn
            return Answer(self._ended[handle], failed=True)
        self._wind(handle, found)
        try:
            reply = await found.episode.call(name, arguments)
        except EpisodeError as failure:
            await self._end(handle, failure.status, str(failure))
            return Answer("The episode has ended: the FHIR server failed.", failed=True)
        if not found.episode.done:
            return Answer(reply)
        status = found.episode.outcome.status or "completed"
        await self._end(handle, status)
        if status == "completed":
            return Answer("The episode has ended; your answers are kept.")
        return Answer(f"{reply}\n\nThe episode has ended: all its rounds are used.", failed=True)

    def _wind(self, handle: str, found: _Open) -> None:
        """Give the episode its whole time again."""
        if found.clock is not None:
            found.clock.cancel()
        found.clock = asyncio.get_running_loop().call_later(self._idle, self._forget, handle)

    def _forget(self, handle: str) -> None:
        ending = asyncio.create_task(self._end(handle, "time_limit", f"nothing was done for {self._idle:g} s"))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    async def _end(self, handle: str, status: str, error: str | None = None) -> None:
        """Close an episode and keep its row."""
        found = self._open.pop(handle, None)
        if found is None:
            return
        if found.clock is not None:
            found.clock.cancel()
        why = f": {error}" if error else ""
        self._ended[handle] = f"This episode has ended ({status}{why})."
        found.row.take(found.episode.outcome)
        found.row.status, found.row.error = status, error
        found.row.seconds = round(time.monotonic() - found.began, 3)
        await found.stack.aclose()
        await self._run.keep(found.row)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for handle in list(self._open):
            await self._end(handle, "cancelled", "the server was ended")
        await asyncio.gather(*self._ending)


def _with_handle(tool: Tool) -> Tool:
    """A tool of an episode as one of the server: it takes the handle too."""
    schema = tool.parameters
    required = [HANDLE, *schema.get("required", [])]
    words = tool.description if tool is not FINISH else "Ends the episode with the answers."
    properties = {HANDLE: _HANDLE, **schema.get("properties", {})}
    return Tool(tool.name, words, {**schema, "properties": properties, "required": required})
