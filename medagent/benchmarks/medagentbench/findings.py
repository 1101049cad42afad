"""What grading found: for a person as a report's table, for a program as `grade.json`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from medagent.benchmarks.medagentbench.episode import EpisodeRow
from medagent.benchmarks.medagentbench.published import published_notes, published_sections
from medagent.benchmarks.medagentbench.results.official_grades import OfficialGrades
from medagent.benchmarks.medagentbench.tasks.dataset import Dataset
from medagent.engine.files import write_changed
from medagent.engine.folder import read_run
from medagent.engine.report import ItemOutcome, TableLine, TableSection, by_trial
from medagent.engine.run import Findings
from medagent.reports.tables import named, percent
from medagent.reports.trials import flip_notes, trial_section
from refsol.medagentbench import GradeReport, Rate, Verdict
from refsol.medagentbench.recorded import RESULTS_FILE
from refsol.trials import Rates, by_type, clustered, flipping, rates, reliability

_LISTED = 20
BRANCHES = {"query": "queries", "order": "an order was due", "no order": "doing nothing was right"}
"""What was right to do, in words."""


@dataclass(slots=True)
class EpisodeCounts:
    """How the episodes of a run went, counted beside the verdicts. `statuses` has each unit's ending."""

    statuses: dict[str, str] = field(default_factory=dict)
    thinking: int = 0
    malformed: int = 0
    strip_thinking: bool = False
    max_tokens: object = None

    def add(self, row: EpisodeRow) -> None:
        """Count a row."""
        self.statuses[row.unit] = row.status
        self.thinking += row.thinking
        self.malformed += row.malformed

    def notes(self) -> list[str]:
        """What a person should know of it."""
        notes = []
        endings = Counter(self.statuses.values())
        if endings["agent_error"]:
            notes.append(
                f"{endings['agent_error']} episodes ended because the agent raised an error: counted as failed; "
                "--retry agent_error does them again."
            )
        if endings["cut"]:
            limit = f"--max-tokens {self.max_tokens}: raise it" if self.max_tokens else "the endpoint's own limit"
            notes.append(f"{endings['cut']} replies were cut at {limit}.")
        if endings["empty"]:
            notes.append(f"{endings['empty']} replies were empty.")
        if endings["refused"]:
            notes.append(f"{endings['refused']} episodes were refused by the provider's content filter: not graded.")
        if self.thinking and not self.strip_thinking:
            notes.append(
                f"{self.thinking} episodes opened a message with a <think> block; --strip-thinking would have cut it."
            )
        if self.malformed:
            notes.append(f"{self.malformed} tool calls were malformed.")
        return notes


@dataclass(slots=True)
class GradedTrials:
    """What the findings need of the graded trials, which are added one after the other: of the first one the whole
    report, of the others rates and outcomes. `whole` keeps the checks of all items, where no `grade.json` is written.
    """

    conduct: EpisodeCounts
    whole: bool = False
    first: GradeReport | None = None
    items: list[ItemOutcome] = field(default_factory=list)
    grades: list[dict[str, Any]] = field(default_factory=list)
    ungraded: int = 0

    def add(self, report: GradeReport) -> dict[str, Any]:
        """Take the next trial; returns its `grade.json`."""
        self.first = self.first or report
        document = grade_document(report)
        self.grades.append(document if self.whole else {name: document[name] for name in document if name != "items"})
        self.items += _outcomes(report, len(self.grades), self.conduct)
        self.ungraded += report.overall.ungraded + len(report.duplicates)
        return document


def findings(
    trials: GradedTrials, dataset: Dataset, *, files: Sequence[str] = (), official: OfficialGrades | None = None
) -> Findings:
    """The findings of at least one graded trial, the first one's figures in the table. `official` holds what a copy of
    the official grader says of the same files.
    """
    first, items = trials.first, trials.items
    assert first is not None
    graded = by_trial(tuple(items))
    groups = {item.item: item.group for item in items}
    interval = clustered(graded, groups) if graded and len(set(groups.values())) > 1 else None
    notes = _notes(first)
    if official is not None:
        notes += official.notes(items)
    if interval is not None and interval.low < interval.high:  # one that has no width says nothing
        notes.append(f"95 % by bootstrap over task types: {percent(interval.low)} to {percent(interval.high)}")
    notes += trials.conduct.notes()
    if kinds := Counter(item.kind for item in items if item.kind):
        notes.append("Why not right: " + ", ".join(f"{count} {kind}" for kind, count in kinds.most_common()))
    sections = _sections(first)
    if official is not None:
        sections.append(official.section(items))
    several = len(trials.grades) > 1 and bool(graded)
    if several:
        sections.append(trial_section(graded, groups))
        notes += flip_notes(graded)
    sections += published_sections(dataset)
    notes += published_notes(dataset)
    return Findings(
        table=sections,
        overall=_line("overall", first.overall, ungraded=False),
        items=items,
        notes=notes,
        files=files,
        ungraded=trials.ungraded,
        count="of",
        rule_set=first.rules,
        details={
            "grades": trials.grades,
            "trials": _trials(graded, groups) if several else {},
            "cluster_bootstrap": _bounds(graded, groups),
            **({"official_grader": official.document(items)} if official is not None else {}),
        },
    )


def _outcomes(report: GradeReport, trial: int, conduct: EpisodeCounts) -> Iterator[ItemOutcome]:
    for item in report.items:
        yield ItemOutcome(
            item=item.task_id,
            trial=trial,
            group=item.type,
            status=conduct.statuses.get(f"{item.task_id}#{trial}", "completed"),
            correct=item.verdict.correct,
            reason=item.verdict.reason if item.failure is None else item.failure.reason,
            kind="" if item.failure is None else item.failure.kind,
            because="" if item.verdict.because is None else item.verdict.because.sentence,
        )


def grade_document(report: GradeReport) -> dict[str, Any]:
    """The whole report: rates, then every item with its checks."""
    return {
        "rules": report.rules,
        "overall": _rate(report.overall),
        "by_type": {kind: _rate(rate) for kind, rate in report.by_type.items()},
        "groups": {name: _rate(rate) for name, rate in report.groups.items()},
        "branches": {name: _rate(rate) for name, rate in report.branches.items()},
        "baselines": {name: _rate(rate) for name, rate in report.baselines.items()},
        "others": {name: _rate(rate) for name, rate in report.others.items()},
        "differing": {name: [item.task_id for item in report.differing(name)] for name in report.others},
        "duplicates": list(report.duplicates),
        "items": [
            {
                "task_id": item.task_id,
                **_verdict(item.verdict),
                "others": {name: _verdict(verdict) for name, verdict in item.others.items()},
            }
            for item in report.items
        ],
    }


def write_grade(path: Path, document: dict[str, Any]) -> None:
    """Write the document whole, with what `run.json` beside it says of the run; a file that holds it already is left
    alone. Raises UserError where it cannot be written.
    """
    run = read_run(path.parent)
    measured = {name: run.get(name, {}) for name in ("data", "settings", "versions")}
    write_changed(path, json.dumps({**measured, **document}, indent=1) + "\n")


def _sections(report: GradeReport) -> list[TableSection]:
    """Rates by task type, group and branch, the baselines, overall; the other rule sets in a table of their own."""
    ungraded = report.overall.ungraded > 0
    parts = (
        report.by_type,
        {f"{name} tasks": rate for name, rate in report.groups.items()},
        {BRANCHES[name]: rate for name, rate in report.branches.items()},
        {f"baseline {name}": rate for name, rate in report.baselines.items()},
        {"overall": report.overall},
    )
    title = "" if report.rules == "official" else f"under the rules {report.rules!r}"
    sections = [
        TableSection(
            title=title if number == 0 else "",
            name="MedAgentBench",
            lines=tuple(_line(name, rate, ungraded) for name, rate in part.items()),
        )
        for number, part in enumerate(parts)
    ]
    if report.others:
        totals = {report.rules: report.overall, **report.others}
        lines = tuple(_line(name, rate, ungraded=True) for name, rate in totals.items())
        sections.append(TableSection(title="The same items under each rule set", lines=lines))
    return sections


def _line(name: str, rate: Rate, ungraded: bool) -> TableLine:
    return TableLine(
        name=name,
        n=rate.graded,
        value=rate.share,
        interval=(rate.interval.low, rate.interval.high) if rate.graded else None,
        counts={"right": rate.right},
        more={"not graded": rate.ungraded, "rate of all": rate.share_of_all} if ungraded else {},
    )


def _notes(report: GradeReport) -> list[str]:
    notes = [] if report.form == RESULTS_FILE else [f"Read as {report.form}."]
    notes += [f"Warning: {warning}" for warning in report.warnings]
    for name in report.others:
        if differing := [item.task_id for item in report.differing(name)]:
            notes.append(f"Judged otherwise by {name}: {named(differing)}")
        if unable := [item.others[name].reason for item in report.items if item.others[name].correct is None]:
            notes.append(f"Not graded by {name}: {len(unable)}, first because: {unable[0]}")
    if report.duplicates:
        notes.append(f"More than once in the file, only the first was graded: {named(report.duplicates)}")
    if report.absent:
        notes.append(f"{report.absent} tasks of the task set are not in the file.")
    ungraded = [item for item in report.items if item.verdict.correct is None]
    notes += [f"Not graded: {item.task_id!a}: {item.verdict.reason}" for item in ungraded[:_LISTED]]
    if len(ungraded) > _LISTED:
        notes.append(f"Not graded: {len(ungraded) - _LISTED} more")
    return notes


def _trials(graded: dict[str, list[bool]], groups: Mapping[str, str]) -> dict[str, Any]:
    types = {kind: _figures(rates(group)) for kind, group in by_type(graded, groups).items()}
    return {
        **_figures(rates(graded)),
        "by_type": types,
        "reliability": reliability(graded),
        "flipping": list(flipping(graded)),
    }


def _figures(found: Rates) -> dict[str, Any]:
    return {"pass@k": found.at, "pass^k": found.hat, "standard_error": found.error}


def _bounds(graded: dict[str, list[bool]], groups: Mapping[str, str]) -> list[float] | None:
    if not graded:
        return None
    interval = clustered(graded, groups)
    return [interval.low, interval.high]


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "correct": verdict.correct,
        "branch": verdict.branch,
        "reason": verdict.reason,
        "checks": [
            {"name": check.name, "passed": check.passed, "expected": check.expected, "actual": check.actual}
            for check in verdict.checks
        ],
    }


def _rate(rate: Rate) -> dict[str, Any]:
    return {
        **asdict(rate),
        "rate": rate.share,
        "rate_of_all": rate.share_of_all,
        "interval_95": [rate.interval.low, rate.interval.high],
    }
