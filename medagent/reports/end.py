"""The output at the end of a run: the short table, or with `--full` all tables, cost and files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from medagent.core.number_formats import counted, dollars, duration, short_key
from medagent.engine.patient_data import without_errors
from medagent.engine.report import Report
from medagent.engine.rows import FAILED, OWED, Spent
from medagent.models.endings import CUT
from medagent.reports._measured import measured_on
from medagent.reports.summary import CONTINUE, print_summary
from medagent.reports.tables import print_table, put, report_tables

_NAMED = 5
_FILES = 12
_ENDED = {CUT: "cut off by a limit of tokens", "content_filter": "withheld by a filter"}


def print_findings(report: Report, *, full: bool = False) -> None:
    """Print the short table; with `full` all tables, what they were measured on, and notes."""
    if not full:
        print_summary(report, _problems(report))
        return
    for table in report_tables(report):
        print_table(table)
    for line in measured_on(report):
        put(line)
    for note in [*report.notes, *([report.unusable] if report.unusable else []), *_problems(report, full=True)]:
        put(note)


def print_end(report: Report, *, full: bool = False) -> None:
    """Print the output at the end of a run."""
    command = report.command if report.owed and not report.stopped else ""
    if not full:
        print_summary(report, _problems(report), command)
        return
    print_findings(report, full=True)
    print()
    if command:
        put(CONTINUE + command)
    for line in _spending(report):
        put(line)
    put(f"Files: {report.folder}/ ({', '.join(_short(report.files))})")


def _problems(report: Report, *, full: bool = False) -> Iterator[str]:
    """The number of owed units and the errors of those that failed; how units ended that did not complete. The short
    table leaves out the ends if its kinds of failures say the same.
    """
    if report.owed:
        yield f"Owed and not graded: {len(report.owed):,}"
    failures: Counter[tuple[str, str]] = Counter()
    first: dict[tuple[str, str], str] = {}
    for failure in without_errors(report).failed:
        if failure.status != FAILED:
            failures[failure.status, failure.error] += 1
            first.setdefault((failure.status, failure.error), failure.unit)
    for (status, error), count in failures.most_common(_NAMED):
        yield f"  {count} × {status}: {error} (first: {short_key(first[status, error])})"
    if len(failures) > _NAMED:
        yield f"  and {len(failures) - _NAMED} more kinds, see {report.folder}/report.json"
    ended = {status: n for status, n in report.endings.items() if status not in OWED and status != "completed"}
    if ended and (full or not any(item.kind for item in report.items)):
        yield "Not completed: " + ", ".join(f"{count} {status}" for status, count in ended.items())
    if report.finish_reasons:
        yield "Not ended by the model: " + ", ".join(
            f"{count:,} {'reply' if count == 1 else 'replies'} {_ENDED.get(reason, reason)}"
            for reason, count in report.finish_reasons.items()
        )


def _short(files: Sequence[str]) -> Sequence[str]:
    """The names of a run's files. Of many, only the first and last ones and a count."""
    if len(files) <= _FILES:
        return files
    return [*files[:2], f"{len(files) - 5} more", *files[-3:]]


def _spending(report: Report) -> Iterator[str]:
    """The cost of the calls, with a line for each of several models, and the number of calls with an unknown cost."""
    called = {who: spent for who, spent in report.spending.items() if spent.calls or spent.retries}
    if len(called) > 1:
        for who, spent in called.items():
            yield f"{who}: {_cost(spent)}"
    elif called:
        yield _cost(report.spent).replace(" calls", " model calls", 1)
    if report.unpriced:
        yield f"Cost unknown for {report.unpriced:,} {'call' if report.unpriced == 1 else 'calls'}"


def _cost(spent: Spent) -> str:
    reused = f" ({spent.reused:,} from the cache)" if spent.reused else ""
    cut_off = f" ({spent.estimated:,} cut off, their cost is an estimate)" if spent.estimated else ""
    unanswered = f" (up to {spent.unanswered:,} of them of requests without a reply)" if spent.unanswered else ""
    return (
        f"{counted(spent.calls, 'calls')}{reused}{cut_off}, {spent.prompt:,} + {spent.usage.output:,} tokens"
        f"{unanswered}, "
        f"{dollars(spent.cost)}, "
        f"{spent.retries} retries, {duration(spent.waited)} waited"
    )
