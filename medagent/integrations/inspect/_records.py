"""The episode of a sample: its session is opened before the solver and closed after the scorer.

Tools find the session by the sample that calls them, so any solver can use them. After each action the episode's row is
put into the sample's store, where the scorer reads it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from inspect_ai.solver import TaskState
from inspect_ai.util import Store
from inspect_ai.util import store as sample_store

from medagent.core.clock import wall_clock
from medagent.core.errors import UserError
from medagent.engine.rows import Row
from medagent.fhir_episodes.episode import EpisodeJob, EpisodeRow, EpisodeUnit
from medagent.fhir_episodes.session import Session
from medagent.fhir_episodes.tools import Toolbox, call
from medagent.integrations.inspect.source import STORED, Source, stored

UNFINISHED = "unfinished"
"""The status of an episode that is still open, or that its solver did not finish."""
_open: dict[str, OpenRecord] = {}
"""The episodes of this process's samples, by the sample's uuid."""


@dataclass(slots=True)
class OpenRecord:
    """One sample's episode. Its end is the sample's end, so that a solver that calls tools without end stops."""

    state: TaskState
    source: Source
    session: Session
    toolbox: Toolbox
    prompt: str
    row: EpisodeRow
    seed: int | None = None
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    began: float = field(default_factory=time.monotonic)

    async def call(self, name: str, arguments: Mapping[str, Any] | str) -> str:
        """Execute one tool call and return the reply."""
        if self.session.done:
            return "The episode has ended."
        reply = await call(self.session, self.toolbox, name, arguments)
        self.keep()
        return reply or "The episode has ended."

    async def answer(self, answers: str) -> None:
        """End the episode with the answers (a JSON list as text) of a solver that did not call `finish`."""
        await self.session.act(f"FINISH({answers})")
        self.keep()

    def keep(self) -> None:
        """Put the episode's current row into the sample's store."""
        outcome = self.session.outcome()
        self.row.take(outcome)
        self.row.status = outcome.status or UNFINISHED
        set_times(self.row, self.began)
        self.store()
        self.state.completed = self.state.completed or self.session.done

    def store(self) -> None:
        """Put the row into the sample's store."""
        store_row(self.state.store, self.source, self.row, record=self.state.uuid)


async def open_record(state: TaskState, source: Source) -> OpenRecord:
    """Open a sample's episode over a private copy of the record."""
    job: EpisodeJob = source.job("")
    unit: EpisodeUnit = source.unit(str(state.sample_id), state.epoch)
    stack = AsyncExitStack()
    ehr = await stack.enter_async_context(job.ehr.open(job.rules.api_base))
    record = await stack.enter_async_context(ehr.session(unit.key, unit.change, unit.chart))
    session = Session(unit.task, record, job.protocol, job.rules)
    toolbox = Toolbox.of(job.protocol, job.rules.api_base)
    row = EpisodeRow.begin(unit)
    row.started = wall_clock()
    opened = OpenRecord(state, source, session, toolbox, session.reset(), row, unit.seed, stack)
    _open[state.uuid] = opened
    opened.keep()
    return opened


async def close_record(state: TaskState) -> None:
    """Close a sample's copy of the record."""
    if opened := _open.pop(state.uuid, None):
        await opened.stack.aclose()


def record_of(state: TaskState) -> OpenRecord:
    """The episode of a sample. Raises UserError outside a task with FHIR sessions."""
    return _opened(state.uuid)


def unfinished_record(state: TaskState) -> OpenRecord | None:
    """The episode that a sample's solver left open; None if there is none, or if a log is scored again."""
    opened = _open.get(state.uuid)
    return None if opened is None or opened.session.done else opened


def current_record() -> OpenRecord:
    """The episode of the running sample. Raises UserError outside one."""
    return _opened(sample_store().get(STORED, {}).get("record", ""))


def _opened(uuid: str) -> OpenRecord:
    try:
        return _open[uuid]
    except KeyError:
        raise UserError("no record is open; use the FHIR tools in tasks with FHIR sessions") from None


def set_times(row: Row, began: float) -> None:
    """Set a row's end time, and its seconds since `began` (a value of `time.monotonic`)."""
    row.timestamp, row.seconds = wall_clock(), round(time.monotonic() - began, 3)


def store_row(store: Store, source: Source, row: Row, **more: Any) -> None:
    """Keep a row in a sample's store."""
    store.set(STORED, {**stored(source.name, source.options, row), **more})
