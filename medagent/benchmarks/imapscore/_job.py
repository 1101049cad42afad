"""An item as a unit of the run engine: the extractor gets its texts, and the recording becomes a journal row."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pydantic import model_validator

from medagent.agents.choice import AgentChoice
from medagent.agents.reply_cache import ReplyStore
from medagent.benchmarks.imapscore._encoder import EncoderChoice
from medagent.benchmarks.imapscore._extract import Extractor
from medagent.benchmarks.imapscore._prompts import NO_EXAMPLES, ExampleTurns, Prompts
from medagent.benchmarks.imapscore._samples import Sampler
from medagent.engine.rows import Row
from medagent.models.limiter import EndpointStats
from refsol.imapscore.graph import RANKED_THRESHOLD, EntityGraph, Linker
from refsol.imapscore.records import RatedAnswer, RecordingRow, recording_row


@dataclass(frozen=True, slots=True)
class ItemUnit:
    """One item in one trial."""

    item: RatedAnswer
    trial: int = 1

    @property
    def key(self) -> str:
        """The item's id, which is unique in its file; in the second trial `id#2`."""
        return self.item.id if self.trial == 1 else f"{self.item.id}#{self.trial}"


class ItemRow(Row):
    """A row of `episodes.jsonl`. `recording` is None if the model failed before one was made."""

    recording: RecordingRow | None = None

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        """Rejects a row that was moved to another item."""
        item = self.unit if self.recording is None else self.recording.id
        if self.unit != item and not self.unit.startswith(f"{item}#"):
            raise ValueError("unit is not of this item")
        return self


@dataclass(frozen=True, slots=True)
class ExtractionJob:
    """Everything that a process needs to extract items.

    `identity` contains the model settings that decide its replies.
    """

    who: AgentChoice
    identity: Mapping[str, Any]
    prompts: Prompts
    cache: Path
    min_votes: int
    graph: EntityGraph | None
    g_eval: bool
    concurrency: int
    encoder: EncoderChoice | None = None
    examples: ExampleTurns = NO_EXAMPLES
    row: type[ItemRow] = ItemRow

    @asynccontextmanager
    async def open(self) -> AsyncIterator[ExtractionWorker]:
        threshold = {} if self.encoder is None else {"threshold": RANKED_THRESHOLD}
        linker = None if self.graph is None else Linker(self.graph, **threshold)
        store = ReplyStore(self.cache)
        async with AsyncExitStack() as stack:
            agent, stats = await stack.enter_async_context(self.who.open(self.concurrency))
            encoder = None
            if self.encoder is not None:
                encoder = await stack.enter_async_context(self.encoder.open(self.concurrency))
            sampler = Sampler(agent, self.identity, store, self.concurrency)
            extractor = Extractor(sampler, self.prompts, self.min_votes, linker, self.g_eval, encoder, self.examples)
            yield ExtractionWorker(extractor, stats)


@dataclass(frozen=True, slots=True)
class ExtractionWorker:
    """Extracts items; see `Worker`."""

    extractor: Extractor
    stats: Sequence[EndpointStats] = ()

    async def run(self, unit: ItemUnit, row: ItemRow) -> None:
        """Run one item. A failing endpoint leaves it owed; unusable samples are a result."""
        recording = await self.extractor.record(unit.item, row.spent, trial=unit.trial)
        row.recording = recording_row(recording)
