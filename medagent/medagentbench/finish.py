"""The end of a run: grades, the table, what failed and why, where the files are."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from medagent.medagentbench.episode import EpisodeRow
from medagent.medagentbench.plan import Plan
from medagent.report.grade_table import grade_document, print_grade, write_grade
from medagent.report.trials_table import print_trials
from medagent.results.paths import grade_path, results_path
from medagent.run.folder import RunFolder
from medagent.run.journal import Journal
from medagent.run.progress import dollars, duration
from refsol.medagentbench import GradeReport, grade_file
from refsol.trials import Rates, by_type, clustered, rates


def finish(plan: Plan, folder: RunFolder, journal: Journal[EpisodeRow], *, as_json: bool) -> bool:
    """Grade each trial's results file, write `grade.json` beside it, and print the whole.

    Returns whether every item was graded.
    """
    path = folder.path
    reports = []
    for trial in range(1, plan.config.trials + 1):
        results = results_path(path, trial)
        if not results.exists():
            continue  # a limit was reached before this trial began
        report = grade_file(results, plan.items, plan.facts, base=plan.config.api_base)
        write_grade(grade_path(results), report)
        reports.append(report)
    outcomes = by_task(reports)
    if as_json:
        print(json.dumps(_document(path, journal, reports, outcomes), indent=2))
        return all(report.complete for report in reports)
    print_grade(reports[0])
    if outcomes:
        print_trials(outcomes)
    for line in _closing(path, folder.command, journal):
        print(line)
    return all(report.complete for report in reports)


def by_task(reports: list[GradeReport]) -> dict[str, list[bool]]:
    """Each task's graded trials; tasks without one are left out."""
    outcomes: dict[str, list[bool]] = {}
    for report in reports:
        for item in report.items:
            if item.verdict.correct is not None:
                outcomes.setdefault(item.task_id, []).append(item.verdict.correct)
    return outcomes


def _document(
    path: Path, journal: Journal[EpisodeRow], reports: list[GradeReport], outcomes: dict[str, list[bool]]
) -> dict[str, Any]:
    trials: dict[str, Any] = {}
    if len(reports) > 1 and outcomes:
        types = {kind: _figures(rates(group)) for kind, group in by_type(outcomes).items()}
        trials = {**_figures(rates(outcomes)), "by_type": types}
    interval = clustered(outcomes) if outcomes else None
    return {
        "folder": str(path),
        "grades": [grade_document(report) for report in reports],
        "trials": trials,
        "cluster_bootstrap": [interval.low, interval.high] if interval else None,
        "spent": journal.spent.model_dump(),
        "failed": [f"{row.unit}: {row.status}: {row.error or ''}" for row in journal.rows() if row.owed],
    }


def _figures(found: Rates) -> dict[str, Any]:
    return {"pass@k": found.at, "pass^k": found.hat, "standard_error": found.error}


def _closing(path: Path, command: str, journal: Journal[EpisodeRow]) -> list[str]:
    failures: Counter[tuple[str, str]] = Counter()
    endings: Counter[str] = Counter()
    thinking = malformed = 0
    for row in journal.rows():
        if row.owed:
            failures[row.status, row.error or ""] += 1
        elif row.status != "completed":
            endings[row.status] += 1
        thinking += row.thinking
        malformed += row.malformed
    lines = [""]
    if endings:
        lines.append("Not completed: " + ", ".join(f"{count} {status}" for status, count in endings.most_common()))
    if failures:
        lines.append(f"Failed, owed and not graded: {failures.total()}")
        lines += [f"  {count} × {status}: {error}" for (status, error), count in failures.most_common(5)]
        lines.append(f"Continue: {command}")
    if thinking:
        lines.append(f"{thinking} episodes opened a message with a <think> block; --strip-thinking would have cut it.")
    if malformed:
        lines.append(f"{malformed} tool calls were malformed.")
    if journal.spent.calls or journal.spent.retries:
        spent = journal.spent
        lines.append(
            f"{spent.calls:,} model calls, {spent.prompt:,} + {spent.completion:,} tokens, {dollars(spent.cost)}, "
            f"{spent.retries} retries, {duration(spent.waited)} waited"
        )
    lines.append(f"Files: {path}/ (results.json, grade.json, episodes.jsonl, run.json)")
    return lines
