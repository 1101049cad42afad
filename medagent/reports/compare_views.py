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
from medagent.core.number_formats import difference, difference_spread, natural
from medagent.core.scrub import markdown_text, printable
from medagent.engine.report import Measure, Report
from medagent.engine.report import named as group_words
from medagent.engine.scores import Paired
from medagent.reports.compare import (
    ITEMS,
    Comparison,
    FieldComparison,
    SetComparison,
    adjusted,
    compare_groups,
    compare_outcomes,
)
from medagent.reports.power import noise_line
from medagent.reports.tables import WIDTH, Cell, Table, markdown_table, named, print_table, put
from refsol.failures import kind_name
from refsol.stats import Interval

Compared = Mapping[Path, Comparison | SetComparison]
"""Runs, each compared with the same first run."""
Official = Mapping[tuple[int, int], Paired]
"""The official scores of pairs of runs, by their places, if these are not means of items."""
NAMED = 20
"""Number of lost items that the Markdown lists."""


def document(compared: Compared) -> str:
    """Comparisons as JSON: an object if there is one, otherwise a list."""
    documents = [comparison.as_json() for comparison in compared.values()]
    return json.dumps(documents[0] if len(documents) == 1 else documents, indent=1)


def print_compared(first: Path, compared: Compared, *, full: bool = False) -> None:
    """Print the comparisons of runs with the first one: those over sibling sets, then the remaining ones. `full`:
    with the names of all items that are not compared.
    """
    paired: dict[Path, Comparison] = {}
    for path, comparison in compared.items():
        if isinstance(comparison, SetComparison):
            _print_sets(first, path, comparison)
        else:
            paired[path] = comparison
    if len(paired) == 1:
        _print_pair(first, *paired.popitem(), full=full)
    elif paired:
        _print_several(first, paired)


def _print_sets(a: Path, b: Path, sets: SetComparison) -> None:
    _put_names(a, b)
    put("The two are over sibling sets: the same types of task, other patients. Nothing is paired.")
    *groups, overall = _set_rows(sets)
    print_table(Table(["group", "A right", "B right", "B − A", "95%"], [*groups, [], overall]))


def _put_names(a: Path, b: Path) -> None:
    put(f"A: {a}")
    put(f"B: {b}")


def _set_rows(sets: SetComparison) -> list[list[Cell]]:
    return [
        [
            group_words(name, sets.group_names),
            *(f"{right} of {n}" for right, n in (drop.first, drop.second)),
            difference(drop.difference),
            _ends(drop.interval),
        ]
        for name, drop in {**sets.groups, "overall": sets.overall}.items()
    ]


def _print_pair(a: Path, b: Path, comparison: Comparison, *, full: bool) -> None:
    _put_names(a, b)
    better, column = "{} right more often", ""
    rows: list[list[Cell]] = []
    if comparison.kind == "verdicts":
        better, column = "Only {} right", "count"
        counts = {"both right": comparison.both_right, "both wrong": comparison.both_wrong}
        counts |= {"only A right": comparison.lost, "only B right": comparison.gained}
        rows = [[name, len(items)] for name, items in counts.items()]
    elif comparison.kind == "scores":
        better, column = "{} higher", "value"
        rows = [[f"{comparison.figure} of {name}", mean] for name, mean in zip("AB", comparison.means, strict=True)]
    if rows:
        print_table(
            Table([comparison.nouns, column], [*rows, [], ["compared", comparison.tasks]], measure=comparison.measure)
        )
    runs = list(zip("AB", comparison.trials or (), strict=False))
    if runs:
        columns = ["run", comparison.nouns, "trials k", "pass@1", "95%", "pass@k", "95%", "pass^k", "95%", "flip"]
        rows = [
            [
                *(name, comparison.tasks, run.trials),
                *(run.pass_1, run.pass_1_interval),
                *(run.pass_at_k, run.pass_at_k_interval),
                *(run.pass_hat_k, run.pass_hat_k_interval),
                len(run.flipping),
            ]
            for name, run in runs
        ]
        print_table(Table(columns, rows))
    put(f"B − A: {_tested(comparison)}")
    turned = len(comparison.gained) + len(comparison.lost)
    if comparison.kind == "verdicts" and turned:
        independent = comparison.clusters or comparison.tasks
        sizes = [comparison.tasks / independent] * independent
        patients = comparison.clusters if comparison.dependence == "patients" else 0
        noise = noise_line(sizes, turned / comparison.tasks, comparison.nouns, patients)
        put(f"{noise.capitalize()} if runs differ on {turned} of them")
    for line in _fields(comparison):
        put(line)
    flips = [(f"Flip between the trials of {name}", run.flipping) for name, run in runs if comparison.kind == "shares"]
    for name, items in ((better.format("A"), comparison.lost), (better.format("B"), comparison.gained), *flips):
        if items:
            for line in _wrapped(f"{name}: {named(items, len(items) if full else NAMED)}"):
                put(line)
    if comparison.uncompared:
        names = named(comparison.uncompared, len(comparison.uncompared) if full else NAMED)
        put(f"Not compared: {len(comparison.uncompared)} of {comparison.tasks + len(comparison.uncompared)}: {names}")


def _tested(comparison: Comparison) -> str:
    """The difference with its interval and its test."""
    over = f" over {comparison.clusters} {comparison.dependence}" if comparison.clusters else ""
    step = _step(comparison, comparison.measure if comparison.kind == "scores" else "percent")
    return f"{step}; p = {comparison.p:.4g} ({comparison.test}{over})"


def _print_several(first: Path, compared: Mapping[Path, Comparison]) -> None:
    """A line for each run. p belongs to the interval; it is also adjusted for the number of runs (Holm)."""
    put(f"A: {first}")
    verdicts = all(comparison.kind == "verdicts" for comparison in compared.values())
    sides = ["only A right", "only it right"] if verdicts else ["A higher", "it higher"]
    columns = ["run", "compared", "not compared", *sides, "difference", "95%", "p", "p by Holm"]
    rows: list[list[Cell]] = []
    for (path, run), p in zip(compared.items(), adjusted(list(compared.values())), strict=True):
        rows.append([str(path), run.tasks, len(run.uncompared), len(run.lost), len(run.gained)])
        rows[-1] += [difference(run.difference), _ends(run.interval), f"{run.p:.4g}", f"{p:.4g}"]
    note = "The difference is that run's less A's. Two runs alone name the items: medagent compare A B"
    others = [
        f"{path}: different patients from A's"
        for path, comparison in compared.items()
        if comparison.patients is not None
    ]
    for path, comparison in compared.items():
        if comparison.pages is not None:
            others.append(f"{path}: {comparison.pages[1]}; A: {comparison.pages[0]}")
    print_table(Table(columns, rows, notes=[note, *others]))


def _step(comparison: Comparison | FieldComparison, measure: Measure = "percent") -> str:
    """The difference with its interval."""
    return f"{difference(comparison.difference, measure)} (95% {_ends(comparison.interval, measure)})"


def _ends(interval: Interval, measure: Measure = "percent") -> str:
    return difference_spread((interval.low, interval.high), measure)


def _fields(compared: Comparison) -> Iterator[str]:
    """A line for other patients, for other pages, for the grounded, the harmed and the harmful items."""
    if compared.patients is not None:
        digests = " and ".join(digest[:12] for digest in compared.patients)
        yield f"The runs had different patients (digests {digests}), so the difference is not only one of the agents"
    if compared.pages is not None:
        first, second = compared.pages
        yield f"The servers paged differently (A: {first}; B: {second}), which may explain a difference"
    where, nouns = ("", "") if compared.nouns == ITEMS else (" in any item", f" {compared.nouns}")
    for name, field in (
        ("Grounded", compared.grounded),
        ("Harmed", compared.harmed),
        ("Harm (a wrong or a missing order)", compared.harmful),
    ):
        if field is not None:
            counts = f"A {field.first:g}, B {field.second:g} of {field.items}{nouns}"
            yield f"{name}{where}: {counts}; B − A: {_step(field)}"


def _wrapped(text: str) -> list[str]:
    """A text on lines of the terminal's width."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDTH
    return textwrap.wrap(text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def markdown(first: Path, compared: Compared, reports: Mapping[Path, Report]) -> str:
    """The text: a section per run, with its lost items and the reasons from its report."""
    lines = []
    for (path, comparison), p in zip(compared.items(), adjusted(list(compared.values())), strict=True):
        lines += [f"### {markdown_text(str(path))} against {markdown_text(str(first))}", ""]
        if isinstance(comparison, SetComparison):
            columns = ["type", "first right", "this right", "difference", "95%"]
            lines += markdown_table(Table(columns, _set_rows(comparison)))
            lines += ["", "The two are over sibling sets: nothing is paired.", ""]
        else:
            holm = f", {p:.4g} by Holm over {len(compared)} runs" if len(compared) > 1 else ""
            lines += [*_section(comparison, f"p = {comparison.p:.4g}{holm}", reports[path]), ""]
    return "\n".join(lines).rstrip() + "\n"


def _section(comparison: Comparison, test: str, report: Report) -> Iterator[str]:
    yield f"**{difference(comparison.difference)}** (95% {_ends(comparison.interval)}; {test})"
    columns, counts = ["lower", "higher", "compared"], [len(comparison.lost), len(comparison.gained), comparison.tasks]
    if comparison.kind == "verdicts":
        columns = ["both right", "lost", "gained", "both wrong", "compared"]
        counts = [len(comparison.both_right), *counts[:2], len(comparison.both_wrong), comparison.tasks]
    yield from ("", *markdown_table(Table(columns, [counts])))
    for line in _fields(comparison):
        yield from ("", f"{markdown_text(line)}.")
    if comparison.uncompared:
        yield from (
            "",
            f"Not compared: {len(comparison.uncompared)}: {markdown_text(named(comparison.uncompared, NAMED))}",
        )
    if comparison.lost:
        reasons = _reasons(report)
        rows = [[item, reasons.get(item, "")] for item in comparison.lost[:NAMED]]
        yield from ("", *markdown_table(Table(["lost", "why"], rows)))
    if len(comparison.lost) > NAMED:
        yield from ("", f"and {len(comparison.lost) - NAMED} more")


def junit(first: Path, compared: Compared, reports: Mapping[Path, Report]) -> str:
    """JUnit XML: a suite per run, a test per item. Lost items fail; items that are wrong in both runs are skipped.

    Raises UserError for runs over different items.
    """
    suites = ElementTree.Element("testsuites", name="medagent compare")
    for path, comparison in compared.items():
        if isinstance(comparison, SetComparison):
            raise UserError(f"--junit lists items, and {first} and {path} have different ones; leave it out")
        suite = ElementTree.SubElement(suites, "testsuite", name=printable(f"{path} against {first}"))
        report = reports[path]
        reasons, groups = _reasons(report), {item.item: item.group for item in report.items}
        lost, wrong = set(comparison.lost), set(comparison.both_wrong)
        for item in sorted((*comparison.lost, *comparison.gained, *comparison.same), key=natural):
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
        if item.correct is not True and (reason := item.reason or kind_name(item.kind)):
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
        comparison = compare_outcomes(a.items, b.items).by(scores)
        groups = compare_groups(a.items, b.items) if scores is None or comparison.kind == "verdicts" else {}
        lines = [{"name": name, **_numbers(group)} for name, group in groups.items() if name]
        pairs.append(
            {"first": first, "second": second, **_numbers(comparison), "groups": lines if len(lines) > 1 else []}
        )
        compared.append(comparison)
    for pair, p in zip(pairs, adjusted(compared), strict=True):
        pair["holm"] = p if len(compared) > 1 else None
    return pairs


def _numbers(comparison: Comparison) -> dict[str, Any]:
    return {
        "n": comparison.tasks,
        "difference": comparison.difference,
        "low": comparison.interval.low,
        "high": comparison.interval.high,
        "gained": len(comparison.gained),
        "lost": len(comparison.lost),
        "p": comparison.p,
        "holm": None,
    }
