"""Comparisons for CI: Markdown, JUnit XML and an exit code, from the command line."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from medagent.core.errors import UserError
from medagent.engine.report import ItemOutcome, Report
from medagent.reports.compare import compare_outcomes, compare_sets
from medagent.reports.compare_views import junit, markdown
from tests.command import medagent


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("runs")
    for agent in ("reference", "nop"):
        medagent("run", "--agent", agent, "--types", "task2", "--limit", 4, "--results-dir", folder, "--quiet")
    return folder / "v2_r1_reference", folder / "v2_r1_nop"


def test_a_regression_in_ci(runs: tuple[Path, Path], tmp_path: Path) -> None:
    good, bad = runs
    file = tmp_path / "compared.xml"
    ran = medagent("compare", good, bad, "--markdown", "--junit", file, "--fail-under", "-0.02")
    assert (ran.code, ran.err) == (1, f"{bad}: −100.0 points compared with {good} is below --fail-under -0.02\n")
    assert "| 0 | 4 | 0 | 0 | 4 |" in ran.out
    assert ran.out.count("years old on 2023-11-13 |") == 4
    (suite,) = ElementTree.parse(file).getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("4", "4", "0")
    assert [case.get("classname") for case in suite] == ["task2"] * 4
    assert all("years old" in failure.get("message", "") for failure in suite.iter("failure"))


def test_no_regression_in_ci(runs: tuple[Path, Path], tmp_path: Path) -> None:
    good, bad = runs
    better = medagent("compare", bad, good, "--fail-under", "0.5", "--junit", tmp_path / "compared.xml")
    assert (better.code, "B − A: +100.0 points" in better.out) == (0, True)
    assert not list(ElementTree.parse(tmp_path / "compared.xml").iter("failure"))
    assert medagent("compare", good, good, bad, "--markdown", "--fail-under", "0").code == 1
    assert "Holm over 2 runs" in medagent("compare", good, good, bad, "--markdown").out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--markdown", "--json"], "not both"),
        (["--fail-under", "-5"], "--fail-under"),
        (["--junit", "absent/folder/file.xml"], "absent/folder/file.xml: cannot be written"),
    ],
)
def test_words_that_it_refuses(
    words: list[str], said: str, runs: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = medagent("compare", *runs, *words)
    assert (ran.code != 0, said in ran.err, ran.err.count("\n")) == (True, True, 1)


def outcomes(right: str, wrong: str = "", reason: str = "") -> list[ItemOutcome]:
    found = [ItemOutcome(item=name, group="g", correct=True) for name in right]
    return found + [ItemOutcome(item=name, group="g", correct=False, reason=reason) for name in wrong]


def report(items: list[ItemOutcome]) -> Report:
    return Report(benchmark="b", folder="f", items=tuple(items))


def views(first: list[ItemOutcome], second: list[ItemOutcome]) -> tuple[str, str]:
    compared, reports = {Path("b"): compare_outcomes(first, second)}, {Path("b"): report(second)}
    return markdown(Path("a"), compared, reports), junit(Path("a"), compared, reports)


def test_reasons_stay_in_their_cells_and_attributes() -> None:
    text, xml = views(outcomes("xy"), outcomes("", "xy", 'a | b <script> "\x1b[31m`'))
    assert "| x | a \\| b &lt;script> \"␛[31m' |" in text
    assert [failure.get("message") for failure in ElementTree.fromstring(xml).iter("failure")] == [
        'a | b <script> "␛[31m`'
    ] * 2


def test_items_that_only_one_run_has_are_no_tests() -> None:
    text, xml = views(outcomes("x", "y"), outcomes("xz", "y", "why"))
    cases = {case.get("name"): [child.tag for child in case] for case in ElementTree.fromstring(xml).iter("testcase")}
    assert cases == {"x": [], "y": ["skipped"]}
    assert "| 1 | 0 | 0 | 1 | 2 |" in text


def test_scores() -> None:
    first, second = (
        [ItemOutcome(item=name, score=score) for name, score in zip("xyz", scores, strict=True)]
        for scores in ((0.5, 0.5, 0.5), (0.25, 0.75, 0.5))
    )
    text, xml = views(first, second)
    assert "| 1 | 1 | 3 |" in text
    assert [len(case) for case in ElementTree.fromstring(xml).iter("testcase")] == [1, 0, 0]


def test_many_lost_items_are_counted() -> None:
    names = [f"i{number}" for number in range(25)]
    first, second = ([ItemOutcome(item=name, correct=right) for name in names] for right in (True, False))
    assert views(first, second)[0].endswith("| i19 |  |\n\nand 5 more\n")


def test_sibling_sets_have_no_items_to_list() -> None:
    first, second = outcomes("xy"), outcomes("a", "b")
    compared, reports = {Path("b"): compare_sets(report(first), report(second))}, {Path("b"): report(second)}
    assert "| overall | 2 of 2 | 1 of 2 | −50.0 points |" in markdown(Path("a"), compared, reports)
    with pytest.raises(UserError, match="--junit lists items, and a and b have different ones"):
        junit(Path("a"), compared, reports)


def test_the_patients_of_runs_of_different_parts_are_those_of_the_compared_items(tmp_path: Path) -> None:
    for agent, limit in (("nop", 40), ("reference", 30)):
        ran = medagent("run", "--agent", agent, "--limit", limit, "--quiet", "--results-dir", tmp_path)
        assert ran.code == 0
    assert "(30 of 30; 28 patients)" in ran.out
    compared = medagent("compare", tmp_path / "v2_r1_nop", tmp_path / "v2_r1_reference").out
    assert "(paired score test over 28 patients)" in compared
