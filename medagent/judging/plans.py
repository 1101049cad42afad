"""Plans that judge answers: in the run itself, or again with another panel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from medagent.core.errors import UserError
from medagent.engine.folder import Run, read_run
from medagent.engine.plan import Plan
from medagent.engine.report import DataRef
from medagent.engine.settings import RunSettings
from medagent.judging.benchmark import JudgedBenchmark
from medagent.judging.judging import Judging
from medagent.judging.panel import Panel, PanelSettings
from refsol.agreement import self_judged

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
    own = self_judged(model or str(plan.settings.model), panel.names)
    return replace(plan, stages=(*plan.stages, *stages), warnings=(*plan.warnings, *own))


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
        items=benchmark.items(source),
        source=source,
        decides=document["settings"],
        command="medagent judge again",
        repeat="the same command",
    )
    return judged_plan(plan, benchmark, judges, model=str(document["settings"].get("model")))


def _chosen(benchmark: JudgedBenchmark[Any, Any], run: Run, only: Sequence[str]) -> Iterator[str]:
    """The units that `only` names."""
    subjects = list(benchmark.subjects(run))
    names = set(only) - {UNREADABLE}
    if unknown := sorted(names.difference(*({one.unit, *one.ids} for one in subjects))):
        raise UserError(f"--only {unknown[0]}: {run.path} has no answer to an item with this id")
    decisions = Judging(run.path, benchmark.rubric).decisions(subjects)
    judged = {one.subject.unit for one in decisions if one.judged.state == "judged"} if UNREADABLE in only else None
    for subject in subjects:
        if not names.isdisjoint((subject.unit, *subject.ids)) or (judged is not None and subject.unit not in judged):
            yield subject.unit
