"""One question to one model, as a unit of the run engine: asking and judging are the same work."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from medagent.clock import wall_clock
from medagent.engine.rows import Row, Spent
from medagent.errors import EpisodeError
from medagent.models.base import ChatModel, Completion, Message
from medagent.models.limiter import EndpointStats
from medagent.models.settings import ModelSettings


@dataclass(frozen=True, slots=True)
class Call:
    """A message to the model named `model`; `key` stands for it in a journal."""

    key: str
    model: str
    message: str


class CallRow(Row):
    """A row of `episodes.jsonl` (answers) or `judgements.jsonl`: the whole exchange.

    `reply` is None where the call failed; `reasoning` is what the endpoint returned apart from the reply.
    """

    model: str
    message: str
    reply: str | None = None
    reasoning: str | None = None


@dataclass(frozen=True, slots=True)
class CallJob:
    """The models that are called, each by its name."""

    models: tuple[ModelSettings, ...]
    concurrency: int

    @asynccontextmanager
    async def open(self) -> AsyncIterator[CallWorker]:
        """See `Job.open`."""
        from medagent.models import open_model

        async with AsyncExitStack() as stack:
            models: dict[str, ChatModel] = {}
            for settings in self.models:
                model = open_model(settings, concurrency=self.concurrency)
                stack.push_async_callback(model.aclose)
                models[settings.name] = model
            yield CallWorker(models, [model.stats for model in models.values()])


@dataclass(frozen=True, slots=True)
class CallWorker:
    """Makes calls; see `Worker`."""

    models: Mapping[str, ChatModel]
    stats: Sequence[EndpointStats]

    async def run(self, unit: Call) -> CallRow:
        """One call. A failure that is not the model's answer becomes the row's status."""
        started, clock = wall_clock(), time.monotonic()
        completion: Completion | None = None
        status, error, spent = "completed", None, Spent()
        try:
            completion = await self.models[unit.model].complete([Message("user", unit.message)], session=unit.key)
        except EpisodeError as failure:
            status, error = failure.status, str(failure)
            spent.add_failure(failure)
        except asyncio.CancelledError:
            status = "cancelled"
        if completion is not None:
            spent.add(completion)
        return CallRow(
            unit=unit.key,
            status=status,
            error=error,
            spent=spent,
            started=started,
            timestamp=wall_clock(),
            seconds=round(time.monotonic() - clock, 3),
            model=unit.model,
            message=unit.message,
            reply=completion.text if completion else None,
            reasoning=completion.reasoning if completion else None,
        )
