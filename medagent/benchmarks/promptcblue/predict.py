"""A line of the test file as a unit of the run engine: its prompt goes to the model, the answer becomes a row."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from medagent.clock import wall_clock
from medagent.engine.rows import Row
from medagent.errors import EpisodeError
from medagent.models.base import ChatModel, Message
from medagent.models.limiter import EndpointStats
from medagent.models.settings import ModelSettings
from medagent.wire import Text


@dataclass(frozen=True, slots=True)
class LineUnit:
    """One line: `number` is its place in the file, `prompt` its `input`."""

    task: str
    number: int
    prompt: str

    @property
    def key(self) -> str:
        """`MedDG#17`; sample ids may be missing or doubled, line numbers are not."""
        return f"{self.task}#{self.number}"


class LineRow(Row):
    """A row of `episodes.jsonl`: the model's text as it came, and what the endpoint returned apart from it."""

    answer: Text | None = None
    reasoning: Text | None = None
    finish_reason: str | None = None


@dataclass(frozen=True, slots=True)
class PredictionJob:
    """Everything a process needs to answer lines."""

    model: ModelSettings
    concurrency: int

    @asynccontextmanager
    async def open(self) -> AsyncIterator[PredictionWorker]:
        """See `Job.open`."""
        from medagent.models import open_model

        model = open_model(self.model, concurrency=self.concurrency)
        try:
            yield PredictionWorker(model, (model.stats,))
        finally:
            await model.aclose()


@dataclass(frozen=True, slots=True)
class PredictionWorker:
    """Answers lines; see `Worker`."""

    model: ChatModel
    stats: Sequence[EndpointStats] = ()

    async def run(self, unit: LineUnit) -> LineRow:
        """One call. Any failure leaves the line owed, a prompt over the context limit too: it has no answer."""
        row = LineRow(unit=unit.key, status="completed", started=wall_clock())
        clock = time.monotonic()
        try:
            completion = await self.model.complete([Message("user", unit.prompt)], session=unit.key)
        except EpisodeError as failure:
            row.status, row.error = "model_error", str(failure)
            row.spent.add_failure(failure)
        except asyncio.CancelledError:
            row.status = "cancelled"
        else:
            row.answer, row.reasoning = completion.text, completion.reasoning
            row.finish_reason = completion.finish_reason
            row.spent.add(completion)
        row.timestamp, row.seconds = wall_clock(), round(time.monotonic() - clock, 3)
        return row
