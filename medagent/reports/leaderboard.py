"""Runs as Markdown: a board for what can be compared (one benchmark, data, patients, rules, protocol and limits), and
below it what each run was measured on. Only complete runs are ranked. Packs show what a replay verified; those that
cannot be replayed have boards of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from medagent.core.number_formats import counted, dollars, figure, harm_words, model_name
from medagent.core.scrub import markdown_line, markdown_text
from medagent.core.version import versions
from medagent.engine.pairs import counting
from medagent.engine.report import PUBLISHED_FIGURES, Report, TableLine, by_trial, places
from medagent.engine.scores import Paired
from medagent.reports._measured import above_blind, measured_on, protocol, who
from medagent.reports.compare import adjusted, compare_outcomes, item_means
from medagent.reports.tables import Cell, Table, bounds, grounded_words, markdown_table
from refsol.intervals import Value, mean_draws, rank_intervals
from refsol.stats import Interval
from refsol.trials import rates

_RATES = (
    "who",
    "served as",
    "prompts",
    "rate",
    "95%",
    "of",
    "trials k",
    "pass@k",
    "pass^k",
    "grounded",
    "above blind",
    "harm",
)
_COLUMNS = (*_RATES, "temperature", "max tokens", "cost", "medagent", "ended")
_LIMITS = (
    *("loop", "writes", "handling", "found", "input-cap", "page-size", "order", "max-rounds"),
    *("unit-time", "unit-tokens", "unit-cost", "code-tool", "code-seconds", "code-memory", "code-requests"),
    *("code-output", "sequential"),
)
"""Settings that are the same for all runs of a board."""
_PROMPTS = (
    "prompts-digest",
    "prompt-digest",
    "system-digest",
    "few-shot-digest",
    "model-prompt-digest",
    "tools-digest",
)
_CLAIMED = " (claimed)"
_CLAIMS = ("Agent:", "Model:", "Repeated attempts:", "Ran:", "Versions:")
"""Lines of `measured_on` that only the pack itself states."""
_SIGNIFICANT = 0.05
_SHOWN = 12
"""Shown characters of a digest."""


@dataclass(frozen=True, slots=True)
class Checks:
    """The result of checking a pack: what a replay verified, what is only claimed, what could not be checked; why its
    episodes could not be replayed (empty if they were); and what needs no check, with the reason.
    """

    verified: Sequence[str] = ()
    claimed: Sequence[str] = ()
    unchecked: Sequence[str] = ()
    no_replay: str = ""
    needless: Sequence[str] = ()

    @property
    def document(self) -> dict[str, list[str]]:
        """The lists, as in `submit check --json`."""
        return {
            "verified_by_replay": list(self.verified),
            "claimed_only": list(self.claimed),
            "could_not_be_checked": list(self.unchecked),
            "needs_no_check": list(self.needless),
        }

    @property
    def lines(self) -> list[str]:
        """The lists as lines, without what needs no check."""
        lists = {"verified by replay": self.verified, "claimed only": self.claimed}
        if self.unchecked or not self.needless:
            lists["could not be checked"] = self.unchecked
        return [f"{name}: {'; '.join(parts) or 'nothing'}" for name, parts in lists.items()]


@dataclass(frozen=True, slots=True)
class Entry:
    """A run, the number of items of its data set, the digest of its patients (empty if unknown or none), and the result
    of its check if it is a pack.
    """

    report: Report
    items: int
    patients: str = ""
    checks: Checks | None = None

    @property
    def board(self) -> tuple[str, ...]:
        """What the runs of a board have in common: benchmark, data, patients, rules, and the words of its limits."""
        report, data = self.report, self.report.data
        apart = _NOT_REPLAYED if _not_replayed(self.checks) else ""
        return (
            report.benchmark,
            data.name,
            data.version,
            data.digest,
            self.patients,
            report.rules,
            ", ".join(_words(report)),
            apart,
        )

    @property
    def incomplete(self) -> str:
        """Why it is not ranked; empty if it is complete."""
        report = self.report
        units = {(item.item, item.trial) for item in report.items}
        due = self.items * max((trial for _, trial in units), default=1)
        if len(units) < due:
            return f"{len(units)} of {due} episodes" if due > self.items else f"{len(units)} of {self.items} items"
        if report.owed:
            return f"{counted(len(report.owed), 'units')} owed"
        if report.ungraded or _overall(report).value is None:
            return f"{report.ungraded} not graded"
        return report.unusable


def leaderboard(
    entries: Sequence[Entry],
    official: Mapping[tuple[int, int], Paired] | None = None,
    refused: Sequence[str] = (),
) -> str:
    """The text, with a board for each group of runs that can be compared.

    `official` has the official scores of pairs of runs, by their places in `entries`, if these are not means of items.
    `refused` are the problems of packs that are on no board.
    """
    here = versions()
    commit = f" (commit {here['commit']})" if "commit" in here else ""
    lines = [
        "# Leaderboard",
        "",
        f"Each run was graded from its files by medagent {here['medagent']}{commit}. Rates of different boards do not",
        "compare. A rate is the mean over all trials. A run's place is 1 + the number of runs that are significantly",
        "better (p below 0.05, adjusted by Holm for all pairs of the board); the rank's interval is a paired bootstrap",
        "over items. Only complete runs are ranked. All else about a run's folder is what its files say. Packs are",
        "checked by replay; what they only claim is marked, and listed below the table.",
    ]
    boards: dict[tuple[str, ...], list[int]] = {}
    for number, entry in sorted(enumerate(entries), key=lambda numbered: _not_replayed(numbered[1].checks)):
        boards.setdefault(entry.board, []).append(number)
    for (_, name, version, digest, patients, rules, words, apart), numbers in boards.items():
        title = " ".join(filter(None, (name, version, apart)))
        digests = [f"{what} {text[:_SHOWN]}" for what, text in (("digest", digest), ("patients", patients)) if text]
        under = ", ".join(filter(None, [*digests, rules and f"rules {rules}", words]))
        lines += ["", f"## {markdown_text(f'{title} ({under})' if under else title)}", ""]
        lines += _board(entries, numbers, official or {})
    if refused:
        lines += ["", "## Refused packs", ""]
        lines += [f"* {markdown_text(problem)}" for problem in refused]
    return "\n".join(lines) + "\n"


def _board(
    entries: Sequence[Entry], numbers: Sequence[int], official: Mapping[tuple[int, int], Paired]
) -> Iterator[str]:
    """The tables of one board, and below them what each run was measured on."""
    reports = [entries[number].report for number in numbers]
    if note := reports[0].data.note:
        yield from (f"{markdown_line(note[0].upper() + note[1:])}.", "")
    ranks = _ranks(entries, [number for number in numbers if not entries[number].incomplete], official)
    ranked = sorted(ranks, key=lambda number: (ranks[number].place, -(_overall(entries[number].report).value or 0)))
    if ranked:
        rows = [[ranks[number].place, ranks[number].words, *_row(entries[number])] for number in ranked]
        yield from markdown_table(Table(("place", "rank, 95%", *_COLUMNS), rows))
    partial = [number for number in numbers if number not in ranks]
    if partial:
        yield from (("", "Not ranked, because they are not complete:", "") if ranked else ("Not complete:", ""))
        rows = [[entries[number].incomplete, *_row(entries[number])] for number in partial]
        yield from markdown_table(Table(("reason", *_COLUMNS), rows))
    yield from _published(reports)
    for entry in (entries[number] for number in (*ranked, *partial)):
        report, checks = entry.report, entry.checks
        yield from ("", f"**{markdown_text(who(report))}** (`{markdown_text(Path(report.folder).name)}`)", "")
        yield from (f"* {markdown_text(line)}" for line in _measured(report, claimed=checks is not None))
        yield from (f"* {markdown_text(line[0].upper() + line[1:])}" for line in (checks.lines if checks else ()))


@dataclass(frozen=True, slots=True)
class _Rank:
    """A run's place, and the 95 % interval of its rank, which includes the place."""

    place: int
    low: int
    high: int

    @property
    def words(self) -> str:
        return str(self.low) if self.low == self.high else f"{self.low}–{self.high}"


def _ranks(
    entries: Sequence[Entry], numbers: Sequence[int], official: Mapping[tuple[int, int], Paired]
) -> dict[int, _Rank]:
    """The rank of each of these runs, which are complete and have the same items."""
    pairs = [*combinations(numbers, 2)]
    compared = [
        compare_outcomes(entries[i].report.items, entries[j].report.items).by(official.get((i, j))) for i, j in pairs
    ]
    places = dict.fromkeys(numbers, 1)
    for (i, j), comparison, p in zip(pairs, compared, adjusted(compared), strict=True):
        if p is not None and p < _SIGNIFICANT:
            places[i if comparison.difference > 0 else j] += 1
    draws = _draws([entries[number].report for number in numbers], [official.get(pair) for pair in pairs])
    bounds = zip(numbers, rank_intervals(draws) if draws else (), strict=True)
    return {
        number: _Rank(places[number], min(low, places[number]), max(high, places[number]))
        for number, (low, high) in bounds
    }


def _draws(reports: Sequence[Report], official: Sequence[Paired | None]) -> Sequence[Sequence[float]]:
    """The headline of each run in each draw of a paired bootstrap. `official` belongs to the pairs of runs, the pairs
    of the first run at the start.
    """
    scores = [pair for pair in official[: len(reports) - 1] if pair is not None]
    if scores:
        return [scores[0].draws[0], *(pair.draws[1] for pair in scores)]
    if not reports:
        return []
    values = [item_means(counting(report.items), lambda outcome: outcome.value) for report in reports]
    types, patients = places(counting(reports[0].items))
    shared = [item for item in values[0] if all(item in run for run in values)]
    rows = (Value(types[item], item, patients[item], (1.0, *(run[item] for run in values))) for item in shared)
    return mean_draws(rows)


_NOT_REPLAYED = "– packs whose episodes cannot be done again"


def _not_replayed(checks: Checks | None) -> bool:
    return checks is not None and bool(checks.no_replay)


def _words(report: Report) -> Iterator[str]:
    """The protocol, the limits and the judges."""
    if words := protocol(report):
        yield f"protocol {words}"
    for name in _LIMITS:
        if value := report.settings.get(name):
            yield name if value is True else f"{name} {value}"
    yield from report.details.get("graded_by", ())
    yield from (f"judge {name}" for name in report.details.get("judges", ()))


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
    yield from ("", *dict.fromkeys(map(markdown_text, notes)))


def _overall(report: Report) -> TableLine:
    return report.overall or TableLine(name="", n=0)


def _row(entry: Entry) -> list[Cell]:
    report, settings, overall = entry.report, entry.report.settings, _overall(entry.report)
    claimed = _CLAIMED if entry.checks else ""
    prompts = (str(settings[name])[:_SHOWN] for name in _PROMPTS if settings.get(name))
    return [
        who(report) + claimed,
        ", ".join(map(model_name, report.model_spent.served or ())) or None,
        ", ".join(prompts) or None,
        figure(overall.value, report.measure),
        bounds(Interval(*overall.interval), report.measure) if overall.interval else None,
        overall.n,
        *_trials(report),
        grounded_words(overall.grounded) or None,
        above_blind(report).partition(" ")[0] or None,
        harm_words(report.details.get("harm")) or None,
        *(_said(settings.get(name)) for name in ("temperature", "max-tokens")),
        dollars(report.spent.cost) + claimed if report.spent.calls else None,
        " ".join(filter(None, (report.versions.get("medagent"), report.versions.get("commit")))),
        report.ended[:10] + claimed,
    ]


def _trials(report: Report) -> list[Cell]:
    """The number of trials that every item has; pass@k and pass^k with their intervals, if there are several."""
    items = counting(report.items)
    outcomes = by_trial(items)
    if not outcomes:
        return [None, None, None]
    figures = rates(outcomes, *places(items))
    if figures.trials == 1:
        return [1, None, None]
    last = ((figures.at, figures.at_intervals), (figures.hat, figures.hat_intervals))
    return [
        figures.trials,
        *(f"{figure(values[-1], 'percent')} ({bounds(intervals[-1])})" for values, intervals in last),
    ]


def _measured(report: Report, *, claimed: bool) -> Iterator[str]:
    for line in measured_on(report):
        yield line + _CLAIMED if claimed and line.startswith(_CLAIMS) else line
    if report.stopped:
        yield f"Stopped: {report.stopped}"


def _said(value: object) -> Cell:
    if value is None:
        return None
    return f"{value:g}" if isinstance(value, float) else str(value)
