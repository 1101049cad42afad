"""An installed benchmark of task types has every command of the bundled ones; one without types says so in a line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command import medagent
from tests.shared_data import ROOT

OUTSIDER = ROOT / "tests" / "outsider"


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(OUTSIDER))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set of the installed benchmark, from a seed."""
    folder = tmp_path_factory.mktemp("installed") / "set"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(OUTSIDER))
        words = ("--like", "renal", "--seed", "one", "--patients", 20, "--per-type", 4)
        ran = medagent("data", "new", folder, *words)
    assert ran.code == 0, ran.err
    assert ran.out.splitlines()[-1] == f"Run it: medagent run renal --dataset {folder} --agent reference"
    return folder


def test_the_package_has_at_most_60_lines() -> None:
    assert len((OUTSIDER / "outsider" / "renal.py").read_text("utf-8").splitlines()) <= 60


def test_its_set_is_verified_and_checked(made: Path) -> None:
    verified = medagent("data", "verify", made, "--seed", "one")
    assert (verified.code, verified.out) == (0, f"{made}: every byte follows from the seed\n")
    refused = medagent("data", "verify", made, "--seed", "two")
    assert (refused.code, "its SHA-256 is not the one" in refused.out) == (1, True)
    checked = medagent("data", "check", made)
    assert checked.code == 0, checked.err
    assert "8 tasks (4 repeat_potassium, 4 last_magnesium), digest " in checked.out
    assert "warning" not in checked.out


def test_a_format_of_another_version_has_one_line(made: Path, tmp_path: Path) -> None:
    document = json.loads((made / "dataset.json").read_text("utf-8"))
    assert (document["format"], document["benchmark"]) == (1, "renal")
    for changed, stated in (({**document, "format": 2}, "format 2"), ({"name": "x"}, "a format without a version")):
        (tmp_path / "dataset.json").write_text(json.dumps(changed), "utf-8")
        ran = medagent("run", "renal", "--dataset", tmp_path, "--agent", "nop")
        assert (ran.code, ran.err.count("\n")) == (1, 1)
        assert f"{stated}; this version of medagent reads format 1: make the set again" in ran.err


def test_its_agents_floors_and_table_follow_from_the_types(made: Path, tmp_path: Path) -> None:
    words = ("--dataset", made, "--results-dir", tmp_path, "--quiet", "--json")
    report = json.loads(medagent("run", "renal", "--agent", "reference", *words).out)
    assert report["overall"]["counts"]["right"] == report["overall"]["n"] == 8
    lines = {line["name"]: line for section in report["table"] for line in section["lines"]}
    assert {"repeat_potassium", "last_magnesium", "baseline nop", "baseline constant", "baseline blind"} <= lines.keys()
    nop = json.loads(medagent("run", "renal", "--agent", "nop", *words).out)
    right = nop["overall"]["counts"]["right"]
    assert (
        right
        == {line["name"]: line for section in nop["table"] for line in section["lines"]}["baseline nop"]["counts"][
            "right"
        ]
    )
    graded = json.loads(medagent("grade", tmp_path / "renal_r1_reference", "--json").out)
    assert graded["overall"]["counts"]["right"] == 8


def test_it_has_twins(made: Path, tmp_path: Path) -> None:
    ran = medagent("data", "twins", made, "--out", tmp_path / "twins")
    assert ran.code == 0, ran.err
    assert "repeat_potassium: 4 pairs, 0 items left out" in ran.out
    words = ("--dataset", tmp_path / "twins", "--results-dir", tmp_path, "--quiet", "--json")
    report = json.loads(medagent("run", "renal", "--agent", "reference", *words).out)
    assert report["twins"]["right_and_read"]["right"] == report["overall"]["n"] > 0
    again = medagent("data", "verify", tmp_path / "twins", "--seed", "one")
    assert (again.code, "follows from its set, not from a seed" in again.err) == (1, True)


def test_its_tasks_are_exported_and_graded_alone(made: Path, tmp_path: Path) -> None:
    out = tmp_path / "harbor"
    ran = medagent("export", "harbor", "renal", out, "--dataset", made, "--ids", "repeat_potassium_1")
    assert ran.code == 0, ran.err
    tests = out / "repeat_potassium_1" / "tests"
    assert {"dataset.json", "reads.jsonl", "tasks.jsonl"} <= {file.name for file in tests.iterdir()}
    assert (out / "repeat_potassium_1" / "solution").is_dir(), "the reference agent is right by the packed files"


def test_a_fhir_benchmark_without_types_has_no_twins(tmp_path: Path) -> None:
    ran = medagent("data", "twins", "births", "--out", tmp_path / "twins")
    assert (ran.code, ran.err) == (
        1,
        "medagent: births: is not made of task types, whose rules decide what is right, so it has no twins\n",
    )
