"""An item as a unit of the run engine: its texts go through the extractor, the recording becomes a journal row."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from medagent.clock import wall_clock
from medagent.errors import EpisodeError
from medagent.imapscore.extract import Extractor
from medagent.imapscore.prompts import Prompts
from medagent.imapscore.samples import ReplyCache, Sampler
from medagent.models.limiter import EndpointStats
from medagent.models.settings import ModelSettings
from medagent.run.rows import Row
from refsol.imapscore.graph import EntityGraph, Linker
from refsol.imapscore.records import RatedAnswer, RecordingRow, recording_row


@dataclass(frozen=True, slots=True)
class ItemUnit:
    """One item."""

    item: RatedAnswer

    @property
    def key(self) -> str:
        """The item's id, which is unique in its file."""
        return self.item.id


class ItemRow(Row):
    """A row of `episodes.jsonl`; `recording` is None where the model failed before there was one."""

    recording: RecordingRow | None = None


@dataclass(frozen=True, slots=True)
class ExtractionJob:
    """Everything a process needs to extract items."""

    model: ModelSettings
    prompts: Prompts
    cache: Path
    min_votes: int
    graph: EntityGraph | None
    g_eval: bool
    concurrency: int

    @asynccontextmanager
    async def open(self) -> AsyncIterator[ExtractionWorker]:
        """See `Job.open`."""
        from medagent.models import open_model

        linker = None if self.graph is None else Linker(self.graph)
        cache = ReplyCache(self.cache)
        model = open_model(self.model, concurrency=self.concurrency)
        try:
            sampler = Sampler(model, self.model, cache)
            extractor = Extractor(sampler, self.prompts, self.min_votes, linker, self.g_eval)
            yield ExtractionWorker(extractor, (model.stats,))
        finally:
            await model.aclose()
            cache.close()


@dataclass(frozen=True, slots=True)
class ExtractionWorker:
    """Extracts items; see `Worker`."""

    extractor: Extractor
    stats: Sequence[EndpointStats] = ()

    async def run(self, unit: ItemUnit) -> ItemRow:
        """One item. A failing endpoint leaves it owed; samples that cannot be used are a result."""
        row = ItemRow(unit=unit.key, status="completed", started=wall_clock())
        clock = time.monotonic()
        try:
            row.recording = recording_row(await self.extractor.record(unit.item, row.spent))
        except EpisodeError as failure:
            row.status, row.error = failure.status, str(failure)
            row.spent.add_failure(failure)
        except asyncio.CancelledError:
            row.status = "cancelled"
        row.timestamp, row.seconds = wall_clock(), round(time.monotonic() - clock, 3)
        return row
