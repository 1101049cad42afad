"""Agents with many forms of search (`forms.py`) on MedAgentBench, psb-300 and own types: who is right, and grounded.

A form that shows all that the rules need is right and grounded everywhere. With one that cannot show it, some items are
right by chance, and none is grounded.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.command import medagent
from tests.medagent.known import forms

LAB_TYPES = "task4,task5,task6,task7,task9,task10"
RUNS = {
    "": ("run", "--types", LAB_TYPES),
    "Psb": ("run", "psb-300", "--max-rounds", 40),  # one page after the other
    "Own": ("run", Path(__file__).parent / "own_types.py"),
}
"""The commands, by what the names of their agents begin with."""
NO_FORM = "is_old"
"""A type whose rule reads only the Patient, which all agents read in the same way."""


class Counts(NamedTuple):
    """The numbers of graded, right and grounded items."""

    graded: int
    right: int
    grounded: int


def counts(agent: str, folder: Path, begin: str = "", *words: object) -> Counts:
    """A run of an agent: its items whose rule searches more than the Patient."""
    run = ("--agent", f"{forms.__name__}:{begin}{agent}", "--results-dir", folder, "--quiet", "--json")
    ran = medagent(*RUNS[begin], *run, *words)
    assert ran.code == 0, ran.err
    items: list[Mapping[str, Any]] = [item for item in json.loads(ran.out)["items"] if item["group"] != NO_FORM]
    known = [item for item in items if item["reading"] != "needs no reading"]
    return Counts(len(known), sum(item["correct"] for item in known), sum(item["grounded"] is True for item in known))


def check_all_grounded(names: Iterable[str], folder: Path, begin: str = "", *words: object) -> None:
    for name in names:
        found = counts(name, folder, begin, *words)
        assert found.grounded == found.right == found.graded > 0, (begin, name, found)


def check_none_grounded(names: Iterable[str], folder: Path, begin: str = "", *words: object) -> None:
    for name in names:
        found = counts(name, folder, begin, *words)
        assert found.grounded == 0, (begin, name, found)


def test_a_few_forms(tmp_path: Path) -> None:
    words = ("--per-type", 2)
    check_all_grounded(["Elements", "LastN"], tmp_path, "", *words)
    check_none_grounded(["AbsoluteReference", "WithoutEncounter"], tmp_path, "", *words)
    check_all_grounded(["RevInclude"], tmp_path, "Own", *words)
    check_none_grounded(["ChainedIdWrong"], tmp_path, "Own", *words)


@pytest.mark.long
@pytest.mark.parametrize("begin", list(RUNS))
def test_every_form_that_shows_what_decides(begin: str, tmp_path: Path) -> None:
    labs = () if begin else forms.LABS
    check_all_grounded((*forms.LEGITIMATE, *labs), tmp_path, begin)


@pytest.mark.long
@pytest.mark.parametrize("begin", list(RUNS))
def test_no_form_that_cannot_show_it(begin: str, tmp_path: Path) -> None:
    labs = () if begin else forms.LABS_NOTHING
    check_none_grounded((*forms.NOTHING, *labs), tmp_path, begin)


@pytest.mark.long
def test_forms_that_show_it_in_some_tasks(tmp_path: Path) -> None:
    """None is grounded more often than it is right, and those that see less are grounded less often."""
    found = {name: counts(name, tmp_path) for name in forms.PARTLY}
    assert all(counted.grounded <= counted.right for counted in found.values())
    grounded = {name: counted.grounded for name, counted in found.items()}
    assert grounded["ValuesOnly"] == grounded["Before2023"] == grounded["History"] == 0
    assert grounded["FirstPage"] < grounded["NewestOne"] <= grounded["NewestThree"] == grounded["SortTwo"]
    assert grounded["CountOnly"] == grounded["Has"] == grounded["SummaryText"] <= grounded["TimesOnly"]
    assert grounded["Today"] < grounded["Window"]
    assert grounded["FinalOnly"] < found["FinalOnly"].right, "readings are corrected too, which it cannot see"
