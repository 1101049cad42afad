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
from medagent.benchmarks.published import check_pack
from medagent.fhir_data.embedded import bundled_file
from tests.command import medagent
from tests.medagent.known import forms
from tests.serving import serving

ITEMS = ("--types", "task4,task7,task10", "--limit", 18)
LAB_ITEMS = ("--types", "task4,task5,task6,task7,task9,task10", "--per-type", 5)
PSB_ITEMS = ("psb-300", "--per-type", 3, "--max-rounds", 40)


@pytest.fixture(scope="module")
def hospital() -> Iterator[str]:
    """The bundled hospital on a port."""
    with Server.open(bundled_file().path) as server, serving(create_app(server)) as url:
        yield f"{url}/fhir"


def run(
    folder: Path, name: str, *words: object, items: tuple[object, ...] = ITEMS, agent: str = "Mixed"
) -> tuple[Path, dict[str, Any]]:
    """A run's folder, and its decisions."""
    named = ("--agent", f"{forms.__name__}:{agent}", "--round", name, "--results-dir", folder)
    ran = medagent("run", *items, *named, "--quiet", "--json", *words)
    assert ran.code == 0, ran.err
    report = json.loads(ran.out)
    return Path(report["folder"]), decisions(report)


def decisions(report: Mapping[str, Any]) -> dict[str, Any]:
    """By item, whether it is right, and grounded."""
    return {item.get("item") or item["task_id"]: (item["correct"], item["grounded"]) for item in report["items"]}


def check_same(first: Mapping[str, Any], again: Mapping[str, Any]) -> None:
    """The same verdicts, and the same decisions or unknown ones, at most a third of them."""
    assert {item: right for item, (right, _) in again.items()} == {item: right for item, (right, _) in first.items()}
    known = {name: decision for name, decision in again.items() if decision[1] is not None}
    assert len(known) >= 2 / 3 * sum(grounded is not None for _, grounded in first.values()) > 0
    assert known == {name: first[name] for name in known}


def check_servers(folder: Path, hospital: str, first: Mapping[str, Any], items: tuple[object, ...], agent: str) -> None:
    """The decisions over a server, with writes on it and in a private layer."""
    for name, words in (
        ("server", ("--fhir", hospital)),
        ("private", ("--fhir", hospital, "--writes", "private", "--send-patient-data", "nowhere")),
    ):
        path, again = run(folder, name, *words, items=items, agent=agent)
        answered = first.keys() - refused(path)
        check_same({item: first[item] for item in answered}, {item: again[item] for item in answered})


def refused(run_folder: Path) -> set[str]:
    """The items in which a private layer refused a read, such as `$everything`: the agent saw another chart."""
    rows = [json.loads(line) for line in (run_folder / "episodes.jsonl").read_text("utf-8").splitlines()]
    return {row["task_id"] for row in rows if "501 Server Error" in str(row["transcript"])}


def check_files(folder: Path, path: Path, first: Mapping[str, Any]) -> None:
    """The decisions about the exported conversation of a run, and about its pack."""
    exported = folder / "official"
    assert medagent("export", "official", path, exported).code == 0
    graded = medagent("grade", exported, "--ehr", bundled_file().path, "--json")
    assert graded.code in (0, 2), graded.err  # 2: the file has some of 300 items
    check_same(first, decisions(json.loads(graded.out)))
    pack = folder / "pack.tar.gz"
    assert medagent("submit", "pack", path, "--out", pack, "--partial").code == 0
    checked = check_pack(pack)
    assert checked.problems == []
    assert checked.report is not None
    check_same(first, decisions(checked.report.model_dump(mode="json")))


def test_the_decision_does_not_depend_on_where_the_chart_is(hospital: str, tmp_path: Path) -> None:
    path, first = run(tmp_path, "embedded")
    assert {decision[1] for decision in first.values()} >= {True, False}
    check_servers(tmp_path, hospital, first, ITEMS, "Mixed")
    check_files(tmp_path, path, first)


@pytest.mark.long
@pytest.mark.parametrize("agent", ["Mixed", "Plain", "Elements", "FirstPage", "AnyNewestTwenty", "AbsoluteReference"])
def test_the_decision_about_many_agents_and_types(agent: str, hospital: str, tmp_path: Path) -> None:
    path, first = run(tmp_path, "embedded", items=LAB_ITEMS, agent=agent)
    check_servers(tmp_path, hospital, first, LAB_ITEMS, agent)
    check_files(tmp_path, path, first)


@pytest.mark.long
@pytest.mark.parametrize("agent", ["PsbMixed", "PsbPlain", "PsbElements", "PsbAbsoluteReference"])
def test_the_decision_about_the_types_of_psb_300(agent: str, hospital: str, tmp_path: Path) -> None:
    """Its runs have no export of conversations and no packs."""
    path, first = run(tmp_path, "embedded", items=PSB_ITEMS, agent=agent)
    check_servers(tmp_path, hospital, first, PSB_ITEMS, agent)
    graded = medagent("grade", path, "--json")
    assert graded.code == 0, graded.err
    assert decisions(json.loads(graded.out)) == first


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
