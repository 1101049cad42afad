"""`medagent promptcblue` over real files; `refsol`'s tests hold the rules themselves."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from tests.command import medagent
from tests.refsol.promptcblue.vectors import jsonl, line, text, value


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test_predictions.json").write_text(text("predictions.jsonl"), "utf-8")
    (tmp_path / "results.json").write_text(text("structured.json"), "utf-8")
    (tmp_path / "gold.json").write_text(text("gold.json"), "utf-8")
    return tmp_path


def test_parse_then_score(folder: Path) -> None:
    assert medagent("promptcblue", "parse", "test_predictions.json", "parsed.json").code == 0
    done = medagent("promptcblue", "score", "parsed.json", "--gold", "gold.json", "--json")
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out)["scoreJson"] == pytest.approx(value("scores.json")["scoreJson"], abs=1e-9)


def test_table_details_part_and_plain(folder: Path) -> None:
    score = ["score", "results.json", "--gold", "gold.json"]
    assert "CMeEE-V2         80 Micro-F1         78.95    67.95    *73.04  " in medagent("promptcblue", *score).out
    details = json.loads(medagent("promptcblue", *score, "--details").out)["details"]
    assert details.keys() == value("scores_detail.json").keys()
    part = json.loads(medagent("promptcblue", *score, "--json", "--tasks", "MedDG", "--metrics", "plain").out)
    assert list(part["scoreJson"]) == ["MedDG-RougeL", "plain mean of 1 task"]


def test_package(folder: Path) -> None:
    done = medagent("promptcblue", "package", "test_predictions.json")
    assert (done.code, done.out) == (0, "wrote test_predictions.zip\n")
    with zipfile.ZipFile("test_predictions.zip") as archive:
        assert archive.read("test_predictions.json") == Path("test_predictions.json").read_bytes()


def test_warnings_go_to_stderr_and_errors_are_typed(folder: Path) -> None:
    Path("part.json").write_bytes(jsonl(line()) + b"\n")
    done = medagent("promptcblue", "parse", "part.json", "parsed.json")
    assert done.code == 0
    assert done.err.startswith("warning: part.json: line 2: blank, skipped\nwarning: part.json: no line of CMeEE-V2")
    refused = medagent("promptcblue", "score", "part.json", "--gold", "gold.json")
    assert refused.code == 1
    assert refused.err.startswith("medagent: part.json: ")
