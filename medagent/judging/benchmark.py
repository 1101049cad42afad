"""A benchmark whose answers are judged by models. It supplies a rubric; everything else is shared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from medagent.engine.benchmark import Benchmark
from medagent.engine.folder import JournalKind, Run
from medagent.engine.rows import Row
from medagent.engine.scores import Judgement, unit_name
from medagent.engine.settings import RunSettings
from medagent.judging.judged import Judged
from medagent.judging.judging import Judging
from medagent.judging.panel import MOST_UNREAD, PanelSettings
from medagent.judging.rows import JUDGEMENTS, ExchangeRow
from medagent.judging.rubric import Rubric, Subject
from refsol.agreement import Labelled

SettingsT = TypeVar("SettingsT", bound=RunSettings)
RowT = TypeVar("RowT", bound=Row)


class JudgedBenchmark(Benchmark[SettingsT, RowT]):
    """The base class of judged benchmarks. Their settings are also a `PanelSettings`."""

    rubric: ClassVar[Rubric[Any]]
    judgements: ClassVar[Mapping[str, JournalKind]] = {JUDGEMENTS: JournalKind(ExchangeRow, "judge")}

    def subjects(self, run: Run) -> Iterator[Subject]:
        """The answers of a run that may be judged, in the order of their rows. Raises UserError."""
        items = {item.id: item for item in self.items(self.source(run, {}))}
        for row in run.rows(self.row):
            name, answer = unit_name(row.unit, items), self.answer(row)
            if name is not None and answer is not None and not row.owed:
                yield Subject(row.unit, items[name.item], answer)

    def recorded(self, path: Path, rule: str) -> Mapping[str, Sequence[Labelled]]:
        """The labels by judge in another tool's files, read by a rule. Empty if these files are unknown."""
        return {}

    def allow_unread(self, source: Any) -> float:
        """See `Benchmark.allow_unread`."""
        return source.allow_unread if isinstance(source, PanelSettings) else MOST_UNREAD

    def judged(self, run: Run) -> Mapping[str, Judgement] | None:
        """See `Benchmark.judged`."""
        return judgements_of(run, self)


def judgements_of(run: Run, benchmark: JudgedBenchmark[Any, Any]) -> dict[str, Judged]:
    """The judgements of a run by unit. Units that no panel covers are left out. Raises UserError."""
    judging = Judging(run.path, benchmark.rubric)
    return {one.subject.unit: one.judged for one in judging.decisions(benchmark.subjects(run))}
