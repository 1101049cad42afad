"""Comparisons for other tools: Markdown for a summary, JUnit XML for a list of tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from medagent.core.errors import UserError
from medagent.core.scrub import printable
from medagent.engine.figures import natural, percent
from medagent.engine.report import Report
from medagent.reports._markdown import cell, table
from medagent.reports.compare import Comparison, ScoreComparison
from medagent.reports.compare_table import grounded_words, other_types_words
from medagent.reports.siblings import SetComparison
from medagent.reports.tables import named
from refsol.stats import Interval, holm

Found = Comparison | ScoreComparison | SetComparison
NAMED = 20
"""Number of lost items that the Markdown names."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A run compared with the first one: its path, its report, and `p` adjusted for the number of runs (Holm)."""

    path: Path
    report: Report
    comparison: Found
    p: float | None

    @property
    def lost(self) -> Sequence[str]:
        """The items with a lower score than in the first run."""
        if isinstance(self.comparison, SetComparison):
            return ()
        return self.comparison.lost if isinstance(self.comparison, Comparison) else self.comparison.lower


def with_reports(comparisons: Mapping[Path, Found], reports: Mapping[Path, Report]) -> Sequence[Compared]:
    """The comparisons of runs with the first one, by path, with their reports."""
    adjusted = iter(holm([one.p for one in comparisons.values() if isinstance(one, Comparison)]))
    return [
        Compared(path, reports[path], one, next(adjusted) if isinstance(one, Comparison) else None)
        for path, one in comparisons.items()
    ]


def markdown(first: object, compared: Sequence[Compared]) -> str:
    """The text: a section per run, with its lost items and the reasons."""
    lines = []
    for one in compared:
        lines += [f"### {cell(str(one.path))} against {cell(str(first))}", "", *_section(one, len(compared)), ""]
    return "\n".join(lines).rstrip() + "\n"


def _section(one: Compared, runs: int) -> Iterator[str]:
    comparison = one.comparison
    if isinstance(comparison, SetComparison):
        drops = [*comparison.groups.items(), ("overall", comparison.overall)]
        rows = [
            [
                name,
                *(f"{right} of {n}" for right, n in (drop.first, drop.second)),
                *_step(drop.difference, drop.interval),
            ]
            for name, drop in drops
        ]
        yield from table(["type", "first right", "this right", "difference", "95 %"], rows)
        yield from ("", "The two are over sibling sets: nothing is paired.")
        return
    difference, bounds = _step(comparison.difference, comparison.interval)
    if isinstance(comparison, Comparison):
        adjusted = f", Holm over {runs} runs" if runs > 1 else ""
        yield f"**{difference}** (95 % {bounds}; McNemar exact p = {one.p:.4g}{adjusted})"
        counts = [
            len(comparison.both_right),
            len(comparison.lost),
            len(comparison.gained),
            len(comparison.both_wrong),
            comparison.tasks,
        ]
        columns = ["both right", "lost", "gained", "both wrong", "compared"]
    else:
        yield f"**{difference}** (95 % {bounds}, paired bootstrap)"
        counts = [len(comparison.lower), len(comparison.higher), comparison.items]
        columns = ["lower", "higher", "compared"]
    yield from ("", *table(columns, [list(map(str, counts))]), "", f"{other_types_words(comparison.other_types)}.")
    if comparison.grounded is not None:
        yield from ("", f"{grounded_words(comparison.grounded)}.")
    if comparison.uncompared:
        yield from ("", f"Not compared: {len(comparison.uncompared)}: {cell(named(comparison.uncompared, NAMED))}")
    if one.lost:
        reasons = _reasons(one.report)
        yield from ("", *table(["lost", "why"], [[item, reasons.get(item, "")] for item in one.lost[:NAMED]]))
    if len(one.lost) > NAMED:
        yield from ("", f"and {len(one.lost) - NAMED} more")


def _step(difference: float, interval: Interval) -> tuple[str, str]:
    return (
        f"{'+' if difference > 0 else ''}{percent(difference)}",
        f"{percent(interval.low)} to {percent(interval.high)}",
    )


def junit(first: object, compared: Sequence[Compared]) -> str:
    """JUnit XML: a suite per run, a test per item. Lost items fail; items that are wrong in both runs are skipped.

    Raises UserError for runs over different items.
    """
    suites = ElementTree.Element("testsuites", name="medagent compare")
    for one in compared:
        if isinstance(one.comparison, SetComparison):
            raise UserError(f"--junit lists items, and {first} and {one.path} have different ones")
        name = printable(f"{one.path} against {first}")
        suite = ElementTree.SubElement(suites, "testsuite", name=name)
        reasons, groups = _reasons(one.report), {item.item: item.group for item in one.report.items}
        lost, wrong, others = _outcomes(one.comparison)
        for item in sorted((*lost, *wrong, *others), key=natural):
            kind = printable(groups.get(item) or one.report.benchmark)
            case = ElementTree.SubElement(suite, "testcase", classname=kind, name=printable(item))
            reason = printable(reasons.get(item, ""))
            if item in lost:
                ElementTree.SubElement(case, "failure", message=reason or "worse than before")
            elif item in wrong:
                ElementTree.SubElement(case, "skipped", message=f"wrong in both: {reason}")
        suite.attrib |= {"tests": str(len(suite)), "failures": str(len(lost)), "skipped": str(len(wrong))}
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _outcomes(comparison: Comparison | ScoreComparison) -> tuple[Sequence[str], Sequence[str], Sequence[str]]:
    """The lost items, those that are wrong in both runs, and all others."""
    if isinstance(comparison, Comparison):
        return comparison.lost, comparison.both_wrong, (*comparison.both_right, *comparison.gained)
    return comparison.lower, (), (*comparison.higher, *comparison.same)


def _reasons(report: Report) -> Mapping[str, str]:
    """The reason of each wrong item, from its first wrong trial."""
    reasons: dict[str, str] = {}
    for item in report.items:
        if item.correct is not True and item.reason:
            reasons.setdefault(item.item, item.reason)
    return reasons
