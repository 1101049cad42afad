"""What grading found, for a person as tables and for a program as a JSON document (`grade.json`, `--json`)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from medagent.report.tables import percent, print_table
from medagent.run.files import write_whole
from refsol.medagentbench import GradeReport, Rate, Verdict
from refsol.medagentbench.recorded import RESULTS_FILE

_LISTED = 20
_BRANCHES = {"query": "queries", "order": "an order was due", "no order": "doing nothing was right"}


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


def write_grade(path: Path, report: GradeReport) -> None:
    """Write the document whole; a file that holds it already is left alone. Raises UserError where it cannot be."""
    text = json.dumps(grade_document(report), indent=1) + "\n"
    if not path.exists() or path.read_bytes() != text.encode():
        write_whole(path, text)


def print_grade(report: GradeReport) -> None:
    """Print rates by task type, group and branch, overall, and the baselines; then what could not be graded."""
    ungraded = report.overall.ungraded > 0
    columns = ["MedAgentBench", "right", "of", "rate", "95 %", *(["not graded", "rate of all"] if ungraded else [])]
    sections = (
        report.by_type,
        {f"{name} tasks": rate for name, rate in report.groups.items()},
        {_BRANCHES[name]: rate for name, rate in report.branches.items()},
        {f"baseline {name}": rate for name, rate in report.baselines.items()},
        {"overall": report.overall},
    )
    rows: list[list[str]] = []
    for section in sections:
        rows += [[name, *_figures(rate, ungraded)] for name, rate in section.items()]
        rows.append([])
    print_table("" if report.rules == "official" else f"under the rules {report.rules!r}", columns, rows[:-1])
    if report.others:
        _print_others(report)
    for note in _notes(report):
        print(note)


def _figures(rate: Rate, ungraded: bool) -> list[str]:
    interval = f"{percent(rate.interval.low)} to {percent(rate.interval.high)}" if rate.graded else "–"
    figures = [str(rate.right), str(rate.graded), percent(rate.share), interval]
    return figures + ([str(rate.ungraded), percent(rate.share_of_all)] if ungraded else [])


def _print_others(report: GradeReport) -> None:
    """Totals of the rule sets; only `official` is the score."""
    totals = {report.rules: report.overall, **report.others}
    rows = [
        [name, str(rate.right), str(rate.graded), percent(rate.share), str(rate.ungraded)]
        for name, rate in totals.items()
    ]
    print_table("The same items under each rule set", ["rules", "right", "of", "rate", "not graded"], rows)
    for name in report.others:
        if differing := [item.task_id for item in report.differing(name)]:
            print(f"Judged otherwise by {name}: {_named(differing)}")
        if unable := [item.others[name].reason for item in report.items if item.others[name].correct is None]:
            print(f"Not graded by {name}: {len(unable)}, first because: {unable[0]}")


def _notes(report: GradeReport) -> list[str]:
    notes = []
    if report.form != RESULTS_FILE:
        notes.append(f"Read as {report.form}.")
    notes += [f"Warning: {warning}" for warning in report.warnings]
    if report.duplicates:
        notes.append(f"More than once in the file, only the first was graded: {_named(report.duplicates)}")
    if report.absent:
        notes.append(f"{report.absent} tasks of the task set are not in the file.")
    ungraded = [item for item in report.items if item.verdict.correct is None]
    notes += [f"Not graded: {item.task_id!a}: {item.verdict.reason}" for item in ungraded[:_LISTED]]
    if len(ungraded) > _LISTED:
        notes.append(f"Not graded: {len(ungraded) - _LISTED} more")
    return notes


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(ascii(name)[1:-1] for name in names[:_LISTED]) + more


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "correct": verdict.correct,
        "branch": verdict.branch,
        "reason": verdict.reason,
        "checks": [asdict(check) for check in verdict.checks],
    }


def _rate(rate: Rate) -> dict[str, Any]:
    return {
        **asdict(rate),
        "rate": rate.share,
        "rate_of_all": rate.share_of_all,
        "interval_95": [rate.interval.low, rate.interval.high],
    }
