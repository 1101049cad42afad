"""Views of comparisons: for a terminal, as JSON, as Markdown for a summary, as JUnit XML, as data of the page."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from medagent.core.errors import UserError
from medagent.core.figures import difference, difference_spread, natural
from medagent.core.scrub import printable
from medagent.engine.report import Measure, Report
from medagent.engine.report import named as group_words
from medagent.engine.scores import Paired
from medagent.reports.compare import (
    Comparison,
    FieldComparison,
    SetComparison,
    adjusted,
    compare_groups,
    compare_outcomes,
)
from medagent.reports.power import noise_line
from medagent.reports.tables import WIDTH, Cell, Table, markdown_cell, markdown_table, named, print_table, put
from refsol.intervals import FEWEST_TYPES
from refsol.stats import Interval

Compared = Mapping[Path, Comparison | SetComparison]
"""Runs, each compared with the same first run."""
Official = Mapping[tuple[int, int], Paired]
"""The official scores of pairs of runs, by their places, if these are not means of items."""
NAMED = 20
"""Number of lost items that the Markdown lists."""


def document(compared: Compared) -> str:
    """Comparisons as JSON: an object if there is one, otherwise a list."""
    documents = [one.as_json() for one in compared.values()]
    return json.dumps(documents[0] if len(documents) == 1 else documents, indent=1)


def print_compared(first: Path, compared: Compared, *, full: bool = False) -> None:
    """Print the comparisons of runs with the first one: those over sibling sets, then all others. `full`: with the
    names of all items that are not compared.
    """
    paired: dict[Path, Comparison] = {}
    for path, one in compared.items():
        if isinstance(one, SetComparison):
            _print_sets(first, path, one)
        else:
            paired[path] = one
    if len(paired) == 1:
        _print_pair(first, *paired.popitem(), full=full)
    elif paired:
        _print_several(first, paired)


def _print_sets(a: Path, b: Path, one: SetComparison) -> None:
    put(f"A: {a}\nB: {b}\nThe two are over sibling sets: the same types of task, other patients. Nothing is paired.")
    *groups, overall = _set_rows(one)
    print_table(Table(["group", "A right", "B right", "B − A", "95%"], [*groups, [], overall]))
    if one.other_types is not None:
        put(f"The intervals apply to these types and other patients. {_other_types(one.other_types)}")


def _set_rows(one: SetComparison) -> list[list[Cell]]:
    return [
        [
            group_words(name, one.group_names),
            *(f"{right} of {n}" for right, n in (drop.first, drop.second)),
            difference(drop.difference),
            _ends(drop.interval),
        ]
        for name, drop in {**one.groups, "overall": one.overall}.items()
    ]


def _print_pair(a: Path, b: Path, one: Comparison, *, full: bool) -> None:
    put(f"A: {a}\nB: {b}")
    better, column = "{} right more often", ""
    rows: list[list[Cell]] = []
    if one.kind == "verdicts":
        better, column = "Only {} right", "count"
        counts = {"both right": one.both_right, "both wrong": one.both_wrong}
        counts |= {"only A right": one.lost, "only B right": one.gained}
        rows = [[name, len(items)] for name, items in counts.items()]
    elif one.kind == "scores":
        better, column = "{} higher", "value"
        rows = [[f"{one.figure} of {name}", mean] for name, mean in zip("AB", one.means, strict=True)]
    if rows:
        print_table(Table([one.nouns, column], [*rows, [], ["compared", one.tasks]], measure=one.measure))
    runs = list(zip("AB", one.trials or (), strict=False))
    if runs:
        columns = ["run", one.nouns, "trials k", "pass@1", "95%", "pass@k", "95%", "pass^k", "95%", "flip"]
        rows = [
            [
                *(name, one.tasks, run.trials),
                *(run.pass_1, run.pass_1_interval),
                *(run.pass_at_k, run.pass_at_k_interval),
                *(run.pass_hat_k, run.pass_hat_k_interval),
                len(run.flipping),
            ]
            for name, run in runs
        ]
        print_table(Table(columns, rows))
    put(f"B − A: {_tested(one)}")
    if one.kind != "scores":
        put(f"The interval applies to these types and other patients. {_other_types(one.other_types)}")
    turned = len(one.gained) + len(one.lost)
    if one.kind == "verdicts" and one.clusters is None and turned:
        put(f"{noise_line(one.tasks, turned / one.tasks, one.nouns).capitalize()} if runs differ on {turned} of them")
    for line in _fields(one):
        put(line)
    flips = [(f"Flip between the trials of {name}", run.flipping) for name, run in runs if one.kind == "shares"]
    for name, items in ((better.format("A"), one.lost), (better.format("B"), one.gained), *flips):
        if items:
            put(_wrapped(f"{name}: {named(items, len(items) if full else NAMED)}"))
    if one.uncompared:
        names = named(one.uncompared, len(one.uncompared) if full else NAMED)
        put(f"Not compared: {len(one.uncompared)} of {one.tasks + len(one.uncompared)}: {names}")


def _tested(one: Comparison) -> str:
    """The difference with its interval and its test."""
    over = f" over {one.clusters} clusters of dependent items" if one.clusters else ""
    return f"{_step(one, one.measure if one.kind == 'scores' else 'percent')}; p = {one.p:.4g} ({one.test}{over})"


def _print_several(first: Path, compared: Mapping[Path, Comparison]) -> None:
    """A line for each run. p belongs to the interval; it is also adjusted for the number of runs (Holm)."""
    put(f"A: {first}")
    verdicts = all(one.kind == "verdicts" for one in compared.values())
    sides = ["only A right", "only it right"] if verdicts else ["A higher", "it higher"]
    columns = ["run", "compared", "not compared", *sides, "difference", "95%", "p", "p by Holm"]
    rows: list[list[Cell]] = []
    for (path, one), p in zip(compared.items(), adjusted(list(compared.values())), strict=True):
        rows.append([str(path), one.tasks, len(one.uncompared), len(one.lost), len(one.gained)])
        rows[-1] += [difference(one.difference), _ends(one.interval), f"{one.p:.4g}", f"{p:.4g}"]
    note = "The difference is that run's less A's. Two runs alone name the items: medagent compare A B"
    others = [f"{path}: different patients from A's" for path, one in compared.items() if one.patients is not None]
    print_table(Table(columns, rows, notes=[note, *others]))


def _step(one: Comparison | FieldComparison, measure: Measure = "percent") -> str:
    """The difference with its interval."""
    return f"{difference(one.difference, measure)} (95% {_ends(one.interval, measure)})"


def _ends(interval: Interval, measure: Measure = "percent") -> str:
    return difference_spread((interval.low, interval.high), measure)


def _other_types(interval: Interval | None) -> str:
    if interval is None:
        return f"Other types: no interval below {FEWEST_TYPES} types"
    return f"Other types: 95% {_ends(interval)}"


def _fields(compared: Comparison) -> Iterator[str]:
    """A line for other patients, one for the grounded items, and one for the harmed items."""
    if compared.patients is not None:
        digests = " and ".join(digest[:12] for digest in compared.patients)
        yield f"The runs had different patients (digests {digests}), so the difference is not only one of the agents"
    for name, one in (("Grounded", compared.grounded), ("Harmed", compared.harmed)):
        if one is not None:
            yield f"{name}: A {one.first:g}, B {one.second:g} of {one.items}; B − A: {_step(one)}"


def _wrapped(text: str) -> str:
    """A text on lines of the terminal's width."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDTH
    return textwrap.fill(text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def markdown(first: Path, compared: Compared, reports: Mapping[Path, Report]) -> str:
    """The text: a section per run, with its lost items and the reasons from its report."""
    lines = []
    for (path, one), p in zip(compared.items(), adjusted(list(compared.values())), strict=True):
        lines += [f"### {markdown_cell(str(path))} against {markdown_cell(str(first))}", ""]
        if isinstance(one, SetComparison):
            columns = ["type", "first right", "this right", "difference", "95%"]
            lines += markdown_table(Table(columns, _set_rows(one)))
            lines += ["", "The two are over sibling sets: nothing is paired.", ""]
        else:
            holm = f", {p:.4g} by Holm over {len(compared)} runs" if len(compared) > 1 else ""
            lines += [*_section(one, f"p = {one.p:.4g}{holm}", reports[path]), ""]
    return "\n".join(lines).rstrip() + "\n"


def _section(one: Comparison, test: str, report: Report) -> Iterator[str]:
    yield f"**{difference(one.difference)}** (95% {_ends(one.interval)}; {test})"
    columns, counts = ["lower", "higher", "compared"], [len(one.lost), len(one.gained), one.tasks]
    if one.kind == "verdicts":
        columns = ["both right", "lost", "gained", "both wrong", "compared"]
        counts = [len(one.both_right), *counts[:2], len(one.both_wrong), one.tasks]
    yield from ("", *markdown_table(Table(columns, [counts])))
    if one.figure == "mean":
        yield from ("", f"{_other_types(one.other_types)}.")
    for line in _fields(one):
        yield from ("", f"{line}.")
    if one.uncompared:
        yield from ("", f"Not compared: {len(one.uncompared)}: {markdown_cell(named(one.uncompared, NAMED))}")
    if one.lost:
        reasons = _reasons(report)
        rows = [[item, reasons.get(item, "")] for item in one.lost[:NAMED]]
        yield from ("", *markdown_table(Table(["lost", "why"], rows)))
    if len(one.lost) > NAMED:
        yield from ("", f"and {len(one.lost) - NAMED} more")


def junit(first: Path, compared: Compared, reports: Mapping[Path, Report]) -> str:
    """JUnit XML: a suite per run, a test per item. Lost items fail; items that are wrong in both runs are skipped.

    Raises UserError for runs over different items.
    """
    suites = ElementTree.Element("testsuites", name="medagent compare")
    for path, one in compared.items():
        if isinstance(one, SetComparison):
            raise UserError(f"--junit lists items, and {first} and {path} have different ones; leave it out")
        suite = ElementTree.SubElement(suites, "testsuite", name=printable(f"{path} against {first}"))
        report = reports[path]
        reasons, groups = _reasons(report), {item.item: item.group for item in report.items}
        lost, wrong = set(one.lost), set(one.both_wrong)
        for item in sorted((*one.lost, *one.gained, *one.same), key=natural):
            kind = printable(groups.get(item) or report.benchmark)
            case = ElementTree.SubElement(suite, "testcase", classname=kind, name=printable(item))
            reason = printable(reasons.get(item, ""))
            if item in lost:
                ElementTree.SubElement(case, "failure", message=reason or "worse than before")
            elif item in wrong:
                ElementTree.SubElement(case, "skipped", message=f"wrong in both: {reason}")
        suite.attrib |= {"tests": str(len(suite)), "failures": str(len(lost)), "skipped": str(len(wrong))}
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _reasons(report: Report) -> Mapping[str, str]:
    """The reason of each wrong item, or the kind of failure, from its first wrong trial."""
    reasons: dict[str, str] = {}
    for item in report.items:
        if item.correct is not True and (reason := item.reason or item.kind):
            reasons.setdefault(item.item, reason)
    return reasons


def page_pairs(reports: Sequence[Report], official: Official) -> list[dict[str, Any]]:
    """Every pair of runs overall and by group, as data of the page.

    If the official score is not a mean of items, its difference is used, and there are no groups. Raises UserError if
    two runs share no graded item.
    """
    pairs: list[dict[str, Any]] = []
    compared = []
    for (first, a), (second, b) in combinations(enumerate(reports), 2):
        scores = official.get((first, second))
        one = compare_outcomes(a.items, b.items).by(scores)
        groups = compare_groups(a.items, b.items) if scores is None or one.kind == "verdicts" else {}
        lines = [{"name": name, **_numbers(group)} for name, group in groups.items() if name]
        pairs.append({"first": first, "second": second, **_numbers(one), "groups": lines if len(lines) > 1 else []})
        compared.append(one)
    for pair, p in zip(pairs, adjusted(compared), strict=True):
        pair["holm"] = p if len(compared) > 1 else None
    return pairs


def _numbers(one: Comparison) -> dict[str, Any]:
    return {
        "n": one.tasks,
        "difference": one.difference,
        "low": one.interval.low,
        "high": one.interval.high,
        "gained": len(one.gained),
        "lost": len(one.lost),
        "p": one.p,
        "holm": None,
    }
