"""Runs as a table in Markdown: one table a data set, since scores on different ones do not compare, and under it what
each run was measured on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from medagent.core.versions import versions
from medagent.engine.figures import dollars
from medagent.engine.report import PUBLISHED_FIGURES, Report, by_trial
from medagent.reports.markdown import cell, table
from medagent.reports.measured import above_blind, measured_on, protocol, who
from medagent.reports.tables import figure, grounded_words, percent
from refsol.trials import rates

_RATES = ("#", "who", "rate", "95 %", "of", "grounded", "above blind", "trials k", "pass@1", "pass@k", "pass^k")
_SETTINGS = ("protocol", "loop", "temperature", "max tokens", "cost", "medagent", "ended")
_COLUMNS = (*_RATES, *_SETTINGS)


def leaderboard(reports: Sequence[Report]) -> str:
    """The text, the best run of each data set first."""
    here = versions()
    commit = f" (commit {here['commit']})" if "commit" in here else ""
    lines = [
        "# Leaderboard",
        "",
        f"Each run was graded anew from its files by medagent {here['medagent']}{commit}. Rates of different data sets",
        "do not compare. The rate and its interval are of the first trial.",
    ]
    groups: dict[tuple[str, ...], list[Report]] = {}
    for report in reports:
        key = (report.benchmark, report.data.name, report.data.version, report.data.digest, report.rule_set)
        groups.setdefault(key, []).append(report)
    for (_, name, version, digest, rules), group in groups.items():
        title = " ".join(filter(None, (name, version)))
        under = ", ".join(filter(None, (f"digest {digest[:12]}" if digest else "", rules and f"rules {rules}")))
        lines += ["", f"## {title}" + (f" ({under})" if under else ""), ""]
        if note := group[0].data.note:
            lines += [f"{note[0].upper()}{note[1:]}.", ""]
        ranked = sorted(group, key=lambda report: -_rate(report))
        lines += table(_COLUMNS, [_row(number, report) for number, report in enumerate(ranked, 1)])
        lines += _published(group)
        for number, report in enumerate(ranked, 1):
            lines += ["", f"**{number}. {cell(who(report))}** (`{cell(Path(report.folder).name)}`)", ""]
            lines += [f"* {cell(line)}" for line in _measured(report)]
    return "\n".join(lines) + "\n"


def _published(group: Sequence[Report]) -> Iterator[str]:
    """What others published for the same tasks, where a benchmark knows it."""
    sections = [section for report in group for section in report.table if section.title == PUBLISHED_FIGURES]
    different = {section.name: section for section in sections}
    if not different:
        return
    yield from ("", f"{PUBLISHED_FIGURES} on the same tasks:")
    for name, section in different.items():
        yield from ("", *table((name, "rate"), [(line.name, percent(line.value)) for line in section.lines]))
    notes = [note for report in group for note in report.notes if note.startswith(PUBLISHED_FIGURES)]
    yield from ("", *dict.fromkeys(map(cell, notes)))


def _rate(report: Report) -> float:
    value = report.overall.value if report.overall is not None else None
    return -1.0 if value is None else value


def _row(number: int, report: Report) -> list[str]:
    settings, overall = report.settings, report.overall
    interval = overall.interval if overall is not None else None
    low, high = (figure(bound, report.measure) for bound in interval) if interval else ("", "")
    left = len(report.owed) + report.ungraded
    of = f"{overall.n if overall is not None else 0}" + (f" ({left} more not graded)" if left else "")
    return [
        str(number),
        who(report),
        figure(overall.value if overall is not None else None, report.measure),
        f"{low} to {high}" if interval else "–",
        of,
        grounded_words(overall.grounded) or "–" if overall is not None else "–",
        above_blind(report).partition(" ")[0] or "–",
        *_trials(report),
        protocol(report) or "–",
        *(_said(settings.get(name)) for name in ("loop", "temperature", "max-tokens")),
        dollars(report.spent.cost) if report.spent.calls else "–",
        " ".join(filter(None, (report.versions.get("medagent"), report.versions.get("commit")))),
        report.ended[:10],
    ]


def _trials(report: Report) -> list[str]:
    """How many trials, pass@1, pass@k and pass^k, where there are several."""
    outcomes = by_trial(report.items)
    if not outcomes or not any(item.trial > 1 for item in report.items):
        return ["1", "–", "–", "–"]
    found = rates(outcomes)
    return [str(found.trials), percent(found.pass1), percent(found.at[-1]), percent(found.hat[-1])]


def _measured(report: Report) -> Iterator[str]:
    yield from measured_on(report)
    if report.stopped:
        yield f"Stopped: {report.stopped}"


def _said(value: object) -> str:
    return "–" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
