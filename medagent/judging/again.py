"""A run's answers judged once more, by another panel, without asking the model again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from medagent.core.errors import UserError
from medagent.engine.folder import read_run
from medagent.engine.journals import Run
from medagent.engine.plan import Plan
from medagent.engine.report import DataRef
from medagent.engine.settings import RunSettings
from medagent.judging.benchmark import JudgedBenchmark
from medagent.judging.judging import Judging
from medagent.judging.panel import PanelSettings
from refsol.agreement import self_judged

UNREADABLE = "unreadable"
"""Selects the units without a verdict by every judge."""


def judging_plan(
    benchmark: JudgedBenchmark[Any, Any],
    run: Run,
    panel: PanelSettings,
    settings: RunSettings,
    only: Sequence[str] = (),
) -> Plan:
    """The plan that has all answers of a run judged, or `only` some, by their ids or `unreadable`. Raises UserError."""
    judging = Judging(run.path, benchmark.rubric)
    judges = panel.panel(benchmark.rubric, settings)
    if only:
        judges = replace(judges, only=sorted(_chosen(benchmark, run, only)))
    document, source = read_run(run.path), benchmark.source(run, {})
    return Plan(
        settings=settings,
        folder=run.path,
        data=DataRef.model_validate(document.get("data") or {"name": ""}),
        items=benchmark.items(source),
        source=source,
        stages=judging.stages(judges, lambda: benchmark.subjects(run), settings.concurrency),
        decides=document["settings"],
        command="medagent judge again",
        repeat="the same command",
        warnings=self_judged(str(document["settings"].get("model")), panel.judge),
    )


def _chosen(benchmark: JudgedBenchmark[Any, Any], run: Run, only: Sequence[str]) -> Iterator[str]:
    """The units that `only` names."""
    subjects = list(benchmark.subjects(run))
    names = set(only) - {UNREADABLE}
    if unknown := sorted(names.difference(*({one.unit, *one.ids} for one in subjects))):
        raise UserError(f"--only {unknown[0]}: {run.path} has no answer to an item of this id")
    decisions = Judging(run.path, benchmark.rubric).decisions(subjects)
    judged = {one.subject.unit for one in decisions if one.judged.state == "judged"} if UNREADABLE in only else None
    for subject in subjects:
        if not names.isdisjoint((subject.unit, *subject.ids)) or (judged is not None and subject.unit not in judged):
            yield subject.unit
