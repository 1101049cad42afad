"""The recorded evaluations of the published evaluators, by the package and by its command."""

from __future__ import annotations

import copy
import gzip
import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from refsol.fhiragentbench._replay import difference
from tests.shared_data import DATA, ROOT, read_xz

Json = dict[str, Any]


@cache
def lines() -> tuple[Json, ...]:
    packed = read_xz(DATA / "fhiragentbench" / "vectors.jsonl.xz")
    return tuple(json.loads(line) for line in packed.splitlines())


def line(group: str) -> Json:
    """A copy of the first line of a group."""
    return copy.deepcopy(next(vector for vector in lines() if vector["group"] == group))


def test_every_recorded_evaluation_is_repeated() -> None:
    assert len(lines()) == 562
    assert [text for vector in lines() if (text := difference(vector)) is not None] == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("calls", 0, "answer"), "y"),
        (("calls", 0, "temperature"), 0.0),
        (("rows", 0, "found"), ["b"]),
        (("rows", 0, "precision"), 0.999999998),
        (("rows", 0, "normalized"), "no answer"),
        (("overall", "f1"), None),
        (("by_types", "{Observation}", "questions"), 2),
    ],
)
def test_a_changed_figure_is_noticed(path: tuple[Any, ...], value: Any) -> None:
    changed = line("edge: both of two")
    inner = changed["expected"]
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    text = difference(changed)
    assert text is not None
    assert f".{path[-1]}" in text or path[-1] == "temperature"


def test_a_file_that_gives_no_figures_is_named_by_row_and_field() -> None:
    nested = line("edge: both of two")
    nested["answers"][0]["agent_fhir_resources"] = {"Observation": [["a"]]}
    assert difference(nested) == (
        "v0009: stops at [0].agent_fhir_resources: an id in a list is itself a list or an object, "
        "but scores are recorded"
    )
    nested["expected"] = {"stops": "TypeError"}
    assert difference(nested) is None
    assert difference({**line("edge: both of two"), "expected": {"stops": "KeyError"}}) is not None


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, "-S", "-m", "refsol.fhiragentbench", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", check=False)


def test_the_command_needs_no_package_and_says_how_many_are_equal(tmp_path: Path) -> None:
    data = "".join(json.dumps(vector) + "\n" for vector in lines()[:40]).encode()
    (tmp_path / "v.jsonl.gz").write_bytes(gzip.compress(data))
    done = run("--vectors", str(tmp_path / "v.jsonl.gz"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "40 of 40 equal\n", "")


def test_the_command_prints_what_differs(tmp_path: Path) -> None:
    changed = line("edge: both of two")
    changed["expected"]["overall"]["recall"] = 0.5
    (tmp_path / "v.jsonl").write_text(json.dumps(changed) + "\n" + json.dumps(lines()[0]) + "\n", encoding="utf-8")
    done = run("--vectors", str(tmp_path / "v.jsonl"))
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "v0009 (edge: both of two): overall.recall: 1.0, recorded 0.5",
        "1 of 2 equal",
    ]


@pytest.mark.parametrize("text", ['{"id": "v1"}\n', "[]\n", "nonsense\n"])
def test_a_file_of_another_form_is_one_clear_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "v.jsonl").write_text(text, encoding="utf-8")
    done = run("--vectors", str(tmp_path / "v.jsonl"))
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {tmp_path / 'v.jsonl'}:1: ")
    assert "Traceback" not in done.stderr
