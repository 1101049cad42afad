"""imapScore as a benchmark: a model extracts the imaps of a file of items; refsol scores them.

The engine runs the items and writes the journal. `imaps.jsonl` is derived from it, in data order, and is the input of
`medagent imapscore`. An item whose endpoint failed is extraction_failed there until you run the command again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from medagent.agents.choice import AgentChoice, keyed
from medagent.agents.single_turn import BASELINES
from medagent.benchmarks.imapscore._encoder import EncoderChoice
from medagent.benchmarks.imapscore._grader import ImapGrader
from medagent.benchmarks.imapscore._items import ImapItem, imap_items
from medagent.benchmarks.imapscore._job import ExtractionJob, ItemRow, ItemUnit
from medagent.benchmarks.imapscore._prompts import NO_EXAMPLES, load_prompts, read_examples
from medagent.benchmarks.imapscore.settings import ImapscoreSettings
from medagent.core.errors import UserError
from medagent.core.writing import file_digest, write_changed
from medagent.engine.benchmark import Benchmark, Say
from medagent.engine.blocks import Block
from medagent.engine.folder import Run
from medagent.engine.plan import Plan, Stage
from medagent.engine.report import DataRef, Report
from medagent.engine.scores import Grader, Score, Scored
from medagent.engine.settings import selected
from refsol.imapscore.imap import Imap
from refsol.imapscore.ontologies import load_graph
from refsol.imapscore.records import Recording, recording_row

IMAPS = "imaps.jsonl"
_IDENTITY = {"name", "api", "temperature", "max_tokens", "extra"}


class Imapscore(Benchmark[ImapscoreSettings, ItemRow]):
    """A medical-fact metric: compares what a response says, asks and leaves out with the doctor's answer."""

    name = "imapscore"
    has_verdicts = False
    example = "medagent run imapscore --model gpt-4o-mini --round r1"
    Settings = ImapscoreSettings
    row = ItemRow
    kinds: ClassVar[Mapping[str, str]] = {
        "no shared term": "the imaps share no term",
        "empty label": "the doctor's answer contains none of the requested facts",
        "empty response": "the response contains none of the requested facts",
        "both empty": "neither answer contains any of the requested facts",
        "no agreement": "the samples could be read, but too few agreed",
        "extraction failed": "no sample could be read, or the model failed",
    }

    def items(self, source: ImapscoreSettings) -> Sequence[ImapItem]:
        return imap_items(source)

    def data(self, source: ImapscoreSettings) -> DataRef:
        return DataRef(name="imapScore", version=source.data.name, digest=file_digest(source.data))

    def grader(self, source: ImapscoreSettings, rules: str) -> Grader[ItemRow]:
        return ImapGrader(source)

    async def plan(self, settings: ImapscoreSettings, say: Say) -> Plan:
        """See `Benchmark.plan`. Raises InputError for invalid items."""
        digest = file_digest(settings.data)
        items = {item.id: item for item in imap_items(settings)}
        chosen = selected(list(items), settings)
        prompts = load_prompts(settings.prompt)
        graph = None if settings.graph is None else load_graph(settings.graph)
        if settings.agent in BASELINES:
            raise UserError(
                f"--agent {settings.agent}: every run prints the ceiling, the majority and the floor; see"
                " docs/imapscore.md"
            )
        models = keyed([*([settings.chat] if settings.chat else []), *([settings.encoder] if settings.encoder else [])])
        encoder = EncoderChoice.of(models[-1]) if settings.encoder else None
        who = AgentChoice.of(settings, system=settings.system_text)
        identity = settings.chat.model_dump(include=_IDENTITY) if settings.chat else {}
        if who.agent is not None:
            identity |= {"agent": who.agent.path, "digest": who.agent.digest}
        if settings.system is not None:
            identity["system"] = settings.system_text
        job = ExtractionJob(
            who,
            identity,
            prompts,
            settings.cache,
            settings.min_votes,
            graph,
            settings.g_eval,
            settings.concurrency,
            encoder,
            NO_EXAMPLES if settings.few_shot is None else read_examples(settings.few_shot, prompts),
        )
        units = [ItemUnit(items[id_].rated, trial) for trial in range(1, settings.trials + 1) for id_ in chosen]
        return Plan(
            settings=settings,
            folder=settings.run_folder("imapscore", who.label),
            data=self.data(settings),
            stages=(Stage(job, lambda: units),),
            items=list(items.values()),
            decides={
                "data-digest": digest,
                **settings.decides(),
                **who.digests(),
                "graph-digest": file_digest(settings.graph) if settings.graph else None,
                "prompts-digest": prompts.digest,
                "few-shot-digest": file_digest(settings.few_shot) if settings.few_shot else None,
                "embed-digest": encoder.plugin.digest if encoder and encoder.plugin else None,
            },
            command=self.command,
            warnings=graph.warnings if graph else (),
        )

    def write(self, run: Run, scores: Sequence[Scored]) -> Sequence[str]:
        """Write the recordings of each trial in data order, after every item was run."""
        rows = {row.unit: row for row in run.rows(ItemRow)}
        if any(score.unit not in rows for score in scores):
            return []
        files = []
        for trial in sorted({score.trial for score in scores}):
            name = IMAPS if trial == 1 else f"imaps.{trial}.jsonl"
            lines = [_line(score.item, rows.get(score.unit)) for score in scores if score.trial == trial]
            write_changed(run.path / name, "".join(f"{line}\n" for line in lines))
            files.append(name)
        return files

    def blocks(self, item: ImapItem, row: ItemRow, score: Score | None) -> Sequence[Block]:
        from medagent.benchmarks.imapscore._details import item_blocks

        return list(item_blocks(item, row))

    def panels(self, report: Report, scores: Sequence[Scored]) -> Sequence[Block]:
        from medagent.benchmarks.imapscore._details import scatters, score_charts

        return [*score_charts(report, scores), *scatters(scores)]


def _line(item: ImapItem, row: ItemRow | None) -> str:
    recording = row.recording if row else None
    if recording is None:
        reason = "not reached" if row is None else row.error or row.status
        failed = Recording(
            item.rated.id, item.rated.digest, Imap(), Imap(), Imap(), failure="extraction_failed", reason=reason
        )
        recording = recording_row(failed)
    return recording.line()
