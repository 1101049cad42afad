"""A benchmark whose answers are judged by models. It supplies a rubric; everything else is shared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from medagent.core.errors import UserError
from medagent.engine.benchmark import Benchmark
from medagent.engine.folder import JournalKind, Run, read_run
from medagent.engine.plan import Plan
from medagent.engine.report import DataRef
from medagent.engine.rows import Row
from medagent.engine.scores import Judgement, unit_name
from medagent.engine.settings import RunSettings
from medagent.judging.judged import Judged
from medagent.judging.judging import Judging
from medagent.judging.panel import MOST_UNREAD, Panel, PanelSettings
from medagent.judging.rows import JUDGEMENTS, ExchangeRow
from medagent.judging.rubric import Rubric, Subject
from refsol.agreement import self_judged

SettingsT = TypeVar("SettingsT", bound=RunSettings)
RowT = TypeVar("RowT", bound=Row)


class JudgedBenchmark(Benchmark[SettingsT, RowT]):
    """The base class of judged benchmarks. Their settings are also a `PanelSettings`."""

    most_unread = MOST_UNREAD
    rubric: ClassVar[Rubric[Any]]
    judgements: ClassVar[Mapping[str, JournalKind]] = {JUDGEMENTS: JournalKind(ExchangeRow, "judge")}

    def subjects(self, run: Run) -> Iterator[Subject]:
        """The answers of a run that may be judged, in the order of their rows. Raises UserError."""
        items = {item.id: item for item in self.read_items(self.source(run, {}))}
        for row in run.rows(self.row):
            name, answer = unit_name(row.unit, items), self.answer(row)
            if name is not None and answer is not None and not row.owed:
                yield Subject(row.unit, items[name.item], answer)

    def judged(self, run: Run) -> Mapping[str, Judgement] | None:
        return judgements_of(run, self)


def judgements_of(run: Run, benchmark: JudgedBenchmark[Any, Any]) -> dict[str, Judged]:
    """The judgements of a run by unit. Units that no panel covers are left out. Raises UserError."""
    judging = Judging(run.path, benchmark.rubric)
    return {decision.subject.unit: decision.judged for decision in judging.decisions(benchmark.subjects(run))}


UNREADABLE = "unreadable"
"""Selects the units without a verdict by every judge."""


def judged_plan(
    plan: Plan, benchmark: JudgedBenchmark[Any, Any], panel: Panel[Any], *, model: str = "", batches: Path | None = None
) -> Plan:
    """A plan of answers, with the stages that judge them.

    `model` is who answers, if not the settings' model. `batches` is the file of the judges' batches.
    """
    judging = Judging(plan.folder, benchmark.rubric)
    concurrency = plan.settings.concurrency
    stages = judging.stages(panel, lambda: benchmark.subjects(Run(plan.folder)), concurrency, batches)
    warnings = self_judged(model or str(plan.settings.model), panel.names)
    return replace(plan, stages=(*plan.stages, *stages), warnings=(*plan.warnings, *warnings))


def again_plan(
    benchmark: JudgedBenchmark[Any, Any],
    run: Run,
    panel: PanelSettings,
    settings: RunSettings,
    only: Sequence[str] = (),
) -> Plan:
    """The plan to judge again all answers of a run, or `only` some (ids or `unreadable`). Raises UserError."""
    judges = panel.panel(benchmark.rubric, settings)
    if only:
        judges = replace(judges, only=sorted(_chosen(benchmark, run, only)))
    changed = panel.model_dump(include={"allow_unread"}, exclude_unset=True)
    document, source = read_run(run.path), benchmark.source(run, changed)
    plan = Plan(
        settings=settings,
        folder=run.path,
        data=DataRef.model_validate(document["data"]),
        stages=(),
        items=benchmark.read_items(source),
        source=source,
        decides=document["settings"],
        command="medagent judge again",
        repeat="repeat the command",
    )
    return judged_plan(plan, benchmark, judges, model=str(document["settings"].get("model")))


def _chosen(benchmark: JudgedBenchmark[Any, Any], run: Run, only: Sequence[str]) -> Iterator[str]:
    """The units that `only` names."""
    subjects = list(benchmark.subjects(run))
    names = set(only) - {UNREADABLE}
    if unknown := sorted(names.difference(*({subject.unit, *subject.ids} for subject in subjects))):
        raise UserError(f"--only {unknown[0]}: {run.path} contains no answer to an item with this id")
    decisions = Judging(run.path, benchmark.rubric).decisions(subjects)
    judged = (
        {decision.subject.unit for decision in decisions if decision.judged.state == "judged"}
        if UNREADABLE in only
        else None
    )
    for subject in subjects:
        if not names.isdisjoint((subject.unit, *subject.ids)) or (judged is not None and subject.unit not in judged):
            yield subject.unit
