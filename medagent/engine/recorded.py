"""Results files that any tool may have made: their items are rows, graded and reported like a run's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from medagent.core.options import Setting
from medagent.core.version import versions
from medagent.core.waiting import blocking
from medagent.engine.benchmark import Benchmark
from medagent.engine.report import DataRef, Report
from medagent.engine.results import GradedUnit, ungraded_notes
from medagent.engine.rows import Row
from medagent.engine.scores import Grader, Item, Scored
from medagent.engine.scoring import graded
from medagent.engine.side_by_side import beside


@dataclass(frozen=True, slots=True)
class RecordedRows:
    """The rows of a results file in its order, each with its item and its trial.

    `source` names the data and decides the grading, as for a run. `settings` and `versions` are those of a `run.json`
    next to the file.
    """

    source: Any
    data: DataRef
    rows: Sequence[tuple[Item, int, Row]]
    notes: Sequence[str] = ()
    settings: Mapping[str, Setting] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=versions)


@dataclass(frozen=True, slots=True)
class GradedFile:
    """The report of a results file, and its scores and graded rows for a page."""

    report: Report
    scores: Sequence[Scored]
    units: Sequence[GradedUnit]


def grade_rows(
    benchmark: Benchmark[Any, Any],
    path: Path,
    file: RecordedRows,
    options: Mapping[str, Any],
    *,
    every_rule: bool = False,
) -> GradedFile:
    """Grade the rows of a results file. `options` are those of grading. `every_rule`: also by all other rule sets.

    Raises UserError, InputError.
    """
    own, side_by_side = str(options.get("rules") or benchmark.rule_sets[0]), bool(options.get("side_by_side"))
    others = {}
    for name in benchmark.rule_sets:
        if name != own and (side_by_side or every_rule):
            with benchmark.grader(file.source, name) as other:
                others[name] = blocking(_scores(other, file))
    with benchmark.grader(file.source, own) as grader:
        scores = blocking(_scores(grader, file))
        figures = grader.figures(scores)
    if side_by_side:
        figures = beside(figures, own, scores, others)
    report = Report(
        benchmark=benchmark.name,
        folder=str(path),
        data=file.data,
        settings=dict(file.settings),
        versions=dict(file.versions),
        rule_set=grader.rules,
        measure=figures.measure,
        figure=figures.figure,
        count=figures.count,
        table=tuple(figures.table),
        overall=figures.overall,
        items=tuple(one.outcome for one in scores),
        notes=(*file.notes, *ungraded_notes(scores), *figures.notes),
        ungraded=sum(one.score is not None and not one.score.graded for one in scores),
        **figures.details,
    )

    def unit(place: int) -> GradedUnit:
        one = scores[place]
        by_rules = {name: score for name, some in others.items() if (score := some[place].score)}
        opposed = {name: score for name, score in by_rules.items() if {score.correct, one.correct} == {True, False}}
        return GradedUnit(one, file.rows[place][2], {own: one.score, **opposed} if one.score and opposed else {})

    return GradedFile(report, scores, list(map(unit, range(len(scores)))))


async def _scores(grader: Grader[Any], file: RecordedRows) -> list[Scored]:
    return [
        Scored(item, trial, row.unit, row.status, await graded(grader, item, row)) for item, trial, row in file.rows
    ]
