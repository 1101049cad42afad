"""`medagent promptcblue` over real files; `refsol`'s tests hold the rules themselves."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from medagent.cli.promptcblue import app
from refsol.errors import InputError
from tests.refsol.promptcblue.vectors import jsonl, line, text, value

runner = CliRunner()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test_predictions.json").write_text(text("predictions.jsonl"), "utf-8")
    (tmp_path / "results.json").write_text(text("structured.json"), "utf-8")
    (tmp_path / "gold.json").write_text(text("gold.json"), "utf-8")
    return tmp_path


def test_parse_then_score(folder: Path) -> None:
    assert runner.invoke(app, ["parse", "test_predictions.json", "parsed.json"]).exit_code == 0
    done = runner.invoke(app, ["score", "parsed.json", "--gold", "gold.json", "--json"])
    assert (done.exit_code, done.stderr) == (0, "")
    assert json.loads(done.stdout)["scoreJson"] == pytest.approx(value("scores.json")["scoreJson"], abs=1e-9)


def test_table_details_part_and_plain(folder: Path) -> None:
    score = ["score", "results.json", "--gold", "gold.json"]
    assert "CMeEE-V2         80 Micro-F1         78.95    67.95    *73.04  " in runner.invoke(app, score).stdout
    details = json.loads(runner.invoke(app, [*score, "--details"]).stdout)["details"]
    assert details.keys() == value("scores_detail.json").keys()
    part = json.loads(runner.invoke(app, [*score, "--json", "--tasks", "MedDG", "--metrics", "plain"]).stdout)
    assert list(part["scoreJson"]) == ["MedDG-RougeL", "plain mean of 1 task"]


def test_package(folder: Path) -> None:
    done = runner.invoke(app, ["package", "test_predictions.json"])
    assert (done.exit_code, done.stdout) == (0, "wrote test_predictions.zip\n")
    with zipfile.ZipFile("test_predictions.zip") as archive:
        assert archive.read("test_predictions.json") == Path("test_predictions.json").read_bytes()


def test_warnings_go_to_stderr_and_errors_are_typed(folder: Path) -> None:
    Path("part.json").write_bytes(jsonl(line()) + b"\n")
    done = runner.invoke(app, ["parse", "part.json", "parsed.json"])
    assert done.exit_code == 0
    assert done.stderr.startswith("warning: part.json: line 2: blank, skipped\nwarning: part.json: no line of CMeEE-V2")
    refused = runner.invoke(app, ["score", "part.json", "--gold", "gold.json"])
    assert isinstance(refused.exception, InputError)
