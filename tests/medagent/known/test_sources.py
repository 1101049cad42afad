"""The same messages get the same decision, wherever the chart is read: in the process, on a server, in a private layer,
from an exported conversation with the patients' file, and in a pack. "Unknown" is allowed too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from fhir_server import Server
from fhir_server.app import create_app
from medagent.fhir_data.embedded import bundled_file
from tests.command import medagent
from tests.medagent.known.forms import Mixed
from tests.serving import serving

AGENT = f"{Mixed.__module__}:{Mixed.__name__}"
ITEMS = ("--types", "task4,task7,task10", "--limit", 18)


@pytest.fixture(scope="module")
def hospital() -> Iterator[str]:
    """The bundled hospital on a port."""
    with Server.open(bundled_file().path) as server, serving(create_app(server)) as url:
        yield f"{url}/fhir"


def run(folder: Path, name: str, *words: object) -> tuple[Path, dict[str, Any]]:
    """A run's folder, and its decisions."""
    command = ("run", *ITEMS, "--agent", AGENT, "--round", name, "--results-dir", folder, "--quiet", "--json")
    ran = medagent(*command, *words)
    assert ran.code == 0, ran.err
    (path,) = folder.glob(f"v2_{name}_*")
    return path, decisions(json.loads(ran.out))


def decisions(report: Mapping[str, Any]) -> dict[str, Any]:
    """By item, whether it is right, and grounded."""
    return {one.get("item") or one["task_id"]: (one["correct"], one["grounded"]) for one in report["items"]}


def check_same(first: Mapping[str, Any], again: Mapping[str, Any]) -> None:
    """The same decisions, or unknown ones; not all are unknown. An agent that got other replies, such as 501 for an
    operation that a private layer refuses, gave another answer.
    """
    assert first.keys() == again.keys()
    same = {name: decision for name, decision in again.items() if decision[0] == first[name][0]}
    known = {name: decision for name, decision in same.items() if decision[1] is not None}
    assert len(known) > len(first) / 2
    assert known == {name: first[name] for name in known}


def test_the_decision_does_not_depend_on_where_the_chart_is(hospital: str, tmp_path: Path) -> None:
    path, first = run(tmp_path, "embedded")
    assert {decision[1] for decision in first.values()} >= {True, False}
    allowed = ("--send-patient-data", "nowhere")
    for name, words in (
        ("server", ("--fhir", hospital)),
        ("private", ("--fhir", hospital, "--writes", "private", *allowed)),
    ):
        again = run(tmp_path, name, *words)[1]
        check_same(first, again)
    exported = tmp_path / "official"
    assert medagent("export", "official", path, exported).code == 0
    graded = medagent("grade", exported, "--ehr", bundled_file().path, "--json")
    assert graded.code in (0, 2), graded.err  # 2: the file has 18 of 300 items
    check_same(first, decisions(json.loads(graded.out)))
    pack = tmp_path / "pack.tar.gz"
    assert medagent("submit", "pack", path, "--out", pack, "--partial").code == 0
    checked = medagent("submit", "check", pack)
    assert checked.code == 0, checked.out


def test_grounds_can_be_left_out(tmp_path: Path) -> None:
    path, first = run(tmp_path, "embedded", "--limit", 6)
    left_out = medagent("grade", path, "--no-grounds", "--json")
    assert left_out.code == 0, left_out.err
    assert decisions(json.loads(left_out.out)) == {name: (correct, None) for name, (correct, _) in first.items()}
    assert "data read" in medagent("grade", path).out
    assert "data read" not in medagent("grade", path, "--no-grounds").out
    results = medagent("grade", path / "results.json", "--no-grounds", "--json")
    assert {grounded for _, grounded in decisions(json.loads(results.out)).values()} == {None}


@pytest.mark.parametrize("words", [("--page-size", 5), ("--order", "shuffled")])
def test_packs_are_replayed_with_the_pages_of_the_run(words: tuple[object, ...], tmp_path: Path) -> None:
    """Other replies than with the usual pages, which are repeated by a check of the pack."""
    path, found = run(tmp_path, "pages", *words)
    pack = tmp_path / "pack.tar.gz"
    assert medagent("submit", "pack", path, "--out", pack, "--partial").code == 0
    checked = medagent("submit", "check", pack)
    assert checked.code == 0, checked.out
    assert "prompts, replies, orders, endings and answers" in checked.out
    check_same(found, decisions(json.loads(medagent("grade", path, "--json").out)))
