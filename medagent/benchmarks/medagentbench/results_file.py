"""Grades a results file like a run: scores, posts, a report and a page. Any tool may have made the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from medagent.benchmarks.medagentbench._grader import TaskGrader
from medagent.benchmarks.medagentbench.items import item_of, task_dicts
from medagent.benchmarks.medagentbench.results import grading
from medagent.benchmarks.medagentbench.results.paths import results_file
from medagent.benchmarks.medagentbench.settings import MedAgentBenchGrading
from medagent.benchmarks.medagentbench.tasks.dataset import Dataset
from medagent.core.versions import versions
from medagent.engine.folder import read_run
from medagent.engine.graded_units import GradedUnit
from medagent.engine.report import Report
from medagent.engine.results import ungraded_notes
from medagent.engine.rows import Row
from medagent.engine.scores import Figures, Score, Scored
from medagent.engine.side_by_side import beside
from medagent.fhir_episodes.episode import EpisodeRow
from medagent.fhir_episodes.session import Turn
from medagent.fhir_episodes.task import FhirItem
from medagent.fhir_episodes.verdicts import score_of
from medagent.reports.tables import named
from refsol.grounds import NOT_GRADED
from refsol.medagentbench import RULE_SETS, Grader, GradeReport, RecordedRun, read_recorded, rule_name
from refsol.medagentbench.recorded import RESULTS_FILE


def _known(scores: Mapping[str, Score], row: Row) -> Mapping[str, Score]:
    return scores


@dataclass(frozen=True, slots=True)
class GradedFile:
    """A graded results file: scores under one rule set, scores under others by name, and the row of each item."""

    path: Path
    dataset: Dataset
    scores: Sequence[Scored]
    others: dict[str, Sequence[Scored]]
    rows: dict[str, EpisodeRow]
    figures: Figures
    rules: str

    def units(self) -> Iterator[GradedUnit]:
        """The items with their scores, for a page."""
        by_rules = {name: {one.unit: one.score for one in some if one.score} for name, some in self.others.items()}
        for one in self.scores:
            others = {name: some[one.unit] for name, some in by_rules.items() if one.unit in some}
            row = self.rows.get(one.unit)
            yield GradedUnit(one, row, partial(self.rows.get, one.unit), partial(_known, others))

    @property
    def report(self) -> Report:
        """The file as a report."""
        results = self.path
        run = read_run(results.parent) if results.with_name("run.json").is_file() else {}
        return Report(
            benchmark="medagentbench",
            folder=str(results),
            data=self.dataset.ref,
            settings=run.get("settings", {}),
            versions=run.get("versions", versions()),
            rule_set=self.rules,
            count=self.figures.count,
            table=tuple(self.figures.table),
            overall=self.figures.overall,
            items=tuple(one.outcome for one in self.scores),
            notes=tuple(self.figures.notes),
            ungraded=sum(one.correct is None for one in self.scores) + len(self.figures.details["duplicates"]),
            **{name: value for name, value in self.figures.details.items() if name != "duplicates"},
        )


def graded_file(path: Path, options: MedAgentBenchGrading, *, every_rule: bool = False) -> GradedFile:
    """Grade a results file, or the first one in a folder without a journal. `every_rule`: under all rule sets.

    Raises UserError, InputError or FactsError.
    """
    results = results_file(path)
    named_set = options.dataset if "dataset" in options.model_fields_set else None
    dataset = grading.task_set(results, options.tasks, named_set)
    if options.fhir is None and options.ehr is None and options.key is None:
        grading.check_patients(results, dataset)
    folder = str(dataset.path.parent) if dataset.manifest and not dataset.bundled else dataset.name
    source = MedAgentBenchGrading(
        version=dataset.version,
        dataset=str(dataset.path) if dataset.alone else folder,
        fhir=options.fhir,
        ehr=options.ehr,
        key=options.key,
        api_base=options.base or grading.shown_base(results),
        official=options.official,
    )
    rules = rule_name(options.rules)
    also = [name for name in RULE_SETS if (options.side_by_side or every_rule) and name != rules]
    grader = TaskGrader.of(source, rules)
    report = Grader(
        task_dicts(dataset), grader.facts, base=source.api_base, rules=rules, also=also, constants=dataset.constants
    ).file(results)
    recorded = read_recorded(results, task_dicts(dataset))
    grader.graded += [(1, item) for item in recorded.items]
    scores = list(_scores(report, dataset, source, grader))
    others: dict[str, Sequence[Scored]] = {name: _other(report, name, scores) for name in also}
    figures = grader.figures(scores)
    if options.side_by_side:
        figures = beside(figures, rules, scores, others)
    details = dict(figures.details)
    document = {**details["grades"][0], "duplicates": list(report.duplicates)}
    figures = replace(
        figures,
        notes=[*_notes(report, scores), *figures.notes],
        details={**details, "grades": [document], "duplicates": report.duplicates},
    )
    return GradedFile(results, dataset, scores, others, _rows(recorded), figures, rules)


def _scores(
    report: GradeReport, dataset: Dataset, source: MedAgentBenchGrading, grader: TaskGrader
) -> Iterator[Scored]:
    tasks = {task.id: task for task in dataset.tasks}
    for one in report.items:
        task = tasks.get(one.task_id)
        item = FhirItem(id=one.task_id, group=one.type) if task is None else item_of(task, dataset, source)
        part = {} if task is None else grader.baselines(item_of(task, dataset, source))
        yield Scored(item, 1, one.task_id, "completed", score_of(one.verdict, one.failure, one.grounds, part))


def _other(report: GradeReport, rules: Any, scores: Sequence[Scored]) -> list[Scored]:
    """The same items under another rule set."""
    return [
        replace(scored, score=score_of(one.others[rules], None, NOT_GRADED, {}))
        for scored, one in zip(scores, report.items, strict=True)
    ]


def _rows(recorded: RecordedRun) -> dict[str, EpisodeRow]:
    """A row for each item, with its posts, or with the whole conversation if the file has it."""
    rows: dict[str, EpisodeRow] = {}
    for item in recorded.items:
        episode = recorded.episodes.get(item.task_id)
        messages = (episode.transcript if episode is not None else ()) or item.post_history
        turns = [Turn("agent" if one.role == "agent" else "user", one.content) for one in messages]
        row = EpisodeRow.model_construct(
            unit=f"{item.task_id}#1", status="completed", task_id=item.task_id, answer=item.answer, transcript=turns
        )
        rows.setdefault(item.task_id, row)
    return rows


def _notes(report: GradeReport, scores: Sequence[Scored]) -> Iterator[str]:
    """Notes about the file: its form, warnings, duplicates, missing and ungraded items."""
    if report.form != RESULTS_FILE:
        yield f"Read as {report.form}."
    yield from (f"Warning: {warning}" for warning in report.warnings)
    if report.duplicates:
        yield f"Duplicates in the file, of which only the first was graded: {named(report.duplicates)}"
    if report.absent:
        yield f"{report.absent} tasks of the task set are not in the file."
    yield from ungraded_notes(scores)
