"""Runs as Markdown tables: one table per data set, since scores on different ones do not compare, and below it what
each run was measured on. Packs show what a replay verified; those that cannot be replayed have a separate table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from medagent.core.figures import dollars, figure
from medagent.core.version import versions
from medagent.engine.report import PUBLISHED_FIGURES, Report, TableLine, by_trial
from medagent.reports._measured import above_blind, measured_on, protocol, who
from medagent.reports.tables import Cell, Table, bounds, grounded_words, markdown_table
from medagent.reports.tables import markdown_cell as cell
from refsol.stats import Interval
from refsol.trials import rates

_RATES = ("#", "who", "rate", "95 %", "of", "grounded", "above blind", "trials k", "pass@1", "pass@k", "pass^k")
_SETTINGS = ("protocol", "loop", "temperature", "max tokens", "cost", "medagent", "ended")
_COLUMNS = (*_RATES, *_SETTINGS)
_CLAIMED = " (claimed)"
_CLAIMS = ("Agent:", "Model:", "Ran:", "Versions:")
"""Lines of `measured_on` that only the pack itself states."""


@dataclass(frozen=True, slots=True)
class Checks:
    """The result of checking a pack: what a replay verified, what is only claimed, what could not be checked; and why
    its episodes could not be replayed (empty if they were).
    """

    verified: Sequence[str] = ()
    claimed: Sequence[str] = ()
    unchecked: Sequence[str] = ()
    no_replay: str = ""

    @property
    def document(self) -> dict[str, list[str]]:
        """The three lists, as in `submit check --json`."""
        return {
            "verified_by_replay": list(self.verified),
            "claimed_only": list(self.claimed),
            "could_not_be_checked": list(self.unchecked),
        }

    @property
    def lines(self) -> list[str]:
        """The three lists as lines."""
        return [f"{name.replace('_', ' ')}: {'; '.join(some) or 'nothing'}" for name, some in self.document.items()]


Entry = tuple[Report, Checks | None]
"""A run, and the result of its check if it is a pack."""


def leaderboard(entries: Sequence[Entry]) -> str:
    """The text, the best run of each data set first."""
    here = versions()
    commit = f" (commit {here['commit']})" if "commit" in here else ""
    lines = [
        "# Leaderboard",
        "",
        f"Each run was graded from its files by medagent {here['medagent']}{commit}. Rates of different data sets",
        "do not compare. The rate and its interval are of the first trial. All else about a run's folder is what its",
        "files say. Packs are checked by replay; what they only claim is marked, and listed below the table.",
    ]
    groups: dict[tuple[str, ...], list[Entry]] = {}
    for report, checks in sorted(entries, key=lambda entry: _not_replayed(entry[1])):
        key = (report.benchmark, report.data.name, report.data.version, report.data.digest, report.rule_set)
        groups.setdefault((*key, _NOT_REPLAYED if _not_replayed(checks) else ""), []).append((report, checks))
    for (_, name, version, digest, rules, apart), group in groups.items():
        title = " ".join(filter(None, (name, version, apart)))
        under = ", ".join(filter(None, (f"digest {digest[:12]}" if digest else "", rules and f"rules {rules}")))
        lines += ["", f"## {title}" + (f" ({under})" if under else ""), ""]
        if note := group[0][0].data.note:
            lines += [f"{note[0].upper()}{note[1:]}.", ""]
        ranked = sorted(
            group, key=lambda entry: -1.0 if (value := _overall(entry[0]).value) is None else value, reverse=True
        )
        lines += markdown_table(Table(_COLUMNS, [_row(number, *entry) for number, entry in enumerate(ranked, 1)]))
        lines += _published([report for report, _ in group])
        for number, (report, checks) in enumerate(ranked, 1):
            lines += ["", f"**{number}. {cell(who(report))}** (`{cell(Path(report.folder).name)}`)", ""]
            lines += [f"* {cell(line)}" for line in _measured(report, claimed=checks is not None)]
            lines += [f"* {cell(line[0].upper() + line[1:])}" for line in (checks.lines if checks else ())]
    return "\n".join(lines) + "\n"


_NOT_REPLAYED = "– packs whose episodes cannot be done again"


def _not_replayed(checks: Checks | None) -> bool:
    return checks is not None and bool(checks.no_replay)


def _published(group: Sequence[Report]) -> Iterator[str]:
    """Published figures for the same tasks, if the benchmark has some."""
    sections = [section for report in group for section in report.table if section.title == PUBLISHED_FIGURES]
    different = {section.name: section for section in sections}
    if not different:
        return
    yield from ("", f"{PUBLISHED_FIGURES} on the same tasks:")
    for name, section in different.items():
        yield from ("", *markdown_table(Table((name, "rate"), [(line.name, line.value) for line in section.lines])))
    notes = [note for report in group for note in report.notes if note.startswith(PUBLISHED_FIGURES)]
    yield from ("", *dict.fromkeys(map(cell, notes)))


def _overall(report: Report) -> TableLine:
    return report.overall or TableLine(name="", n=0)


def _row(number: int, report: Report, checks: Checks | None) -> list[Cell]:
    settings, overall = report.settings, _overall(report)
    claimed = _CLAIMED if checks else ""
    left = len(report.owed) + report.ungraded
    return [
        number,
        who(report) + claimed,
        figure(overall.value, report.measure),
        bounds(Interval(*overall.interval), report.measure) if overall.interval else None,
        f"{overall.n}" + (f" ({left} more not graded)" if left else ""),
        grounded_words(overall.grounded) or None,
        above_blind(report).partition(" ")[0] or None,
        *_trials(report),
        protocol(report) or None,
        *(_said(settings.get(name)) for name in ("loop", "temperature", "max-tokens")),
        dollars(report.spent.cost) + claimed if report.spent.calls else None,
        " ".join(filter(None, (report.versions.get("medagent"), report.versions.get("commit")))),
        report.ended[:10] + claimed,
    ]


def _trials(report: Report) -> list[Cell]:
    """The number of trials, pass@1, pass@k and pass^k, if there are several."""
    outcomes = by_trial(report.items)
    if not outcomes or not any(item.trial > 1 for item in report.items):
        return [1, None, None, None]
    figures = rates(outcomes)
    return [figures.trials, figures.pass1, figures.at[-1], figures.hat[-1]]


def _measured(report: Report, *, claimed: bool) -> Iterator[str]:
    for line in measured_on(report):
        yield line + _CLAIMED if claimed and line.startswith(_CLAIMS) else line
    if report.stopped:
        yield f"Stopped: {report.stopped}"


def _said(value: object) -> Cell:
    return None if value is None else f"{value:g}" if isinstance(value, float) else str(value)
