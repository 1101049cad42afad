"""`python -m refsol.promptcblue` and the script of a submission, each in a Python without any installed package."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.refsol.promptcblue.vectors import jsonl, line, text
from tests.shared_data import ROOT


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "test_predictions.json").write_text(text("predictions.jsonl"), "utf-8")
    (tmp_path / "gold.json").write_text(text("gold.json"), "utf-8")
    return tmp_path


def bare_python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python without site-packages; `refsol` is found through the path alone."""
    environment = {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, "-S", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, encoding="utf-8", check=False)


def refsol(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return bare_python(folder, "-m", "refsol.promptcblue", *arguments)


def test_parse_score_and_package(folder: Path) -> None:
    assert refsol(folder, "parse", "test_predictions.json", "results.json").returncode == 0
    table = refsol(folder, "score", "results.json", "--gold", "gold.json")
    assert (table.returncode, table.stderr) == (0, "")
    assert table.stdout.split("\n")[-2].split()[:3] == ["score", "1280", "63.00"]
    scores = refsol(folder, "score", "results.json", "--gold", "gold.json", "--json")
    assert json.loads(scores.stdout)["score"] == pytest.approx(62.99541326614203, abs=1e-9)
    packed = refsol(folder, "package", "test_predictions.json")
    assert packed.stdout == "wrote test_predictions.zip\n"
    with zipfile.ZipFile(folder / "test_predictions.zip") as archive:
        assert archive.namelist() == ["test_predictions.json", "post_generate_process.py"]
        archive.extractall(folder / "platform")
    script = bare_python(
        folder / "platform", "-I", "post_generate_process.py", "test_predictions.json", "test_structured.json"
    )
    assert (script.returncode, script.stdout, script.stderr) == (0, "", "")
    assert (folder / "platform/test_structured.json").read_bytes() == (folder / "results.json").read_bytes()


def test_the_same_predictions_give_the_same_package(folder: Path) -> None:
    for name in ("one.zip", "two.zip"):
        assert refsol(folder, "package", "test_predictions.json", "--out", name).returncode == 0
    assert (folder / "one.zip").read_bytes() == (folder / "two.zip").read_bytes()


def test_the_script_keeps_to_the_syntax_of_an_older_python() -> None:
    ast.parse((ROOT / "refsol/promptcblue/parse.py").read_text("utf-8"), feature_version=(3, 9))


def test_the_script_says_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_bytes(b"\n" + jsonl(line("MedQA")))
    script = bare_python(tmp_path, str(ROOT / "refsol/promptcblue/parse.py"), "p.json", "s.json")
    assert script.returncode == 1
    assert [row.split(" '")[0] for row in script.stderr.splitlines()] == [
        "warning: p.json: line 1: blank, skipped",
        "p.json: line 2, sample s-1: unknown task",
    ]
    assert not (tmp_path / "s.json").exists()
    assert bare_python(tmp_path, str(ROOT / "refsol/promptcblue/parse.py")).stderr.startswith("usage: ")
    away = bare_python(tmp_path, str(ROOT / "refsol/promptcblue/parse.py"), "away.json", "s.json")
    assert (away.returncode, away.stderr) == (1, "error: away.json: No such file or directory\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["parse", "away.json", "results.json"], "error: away.json: No such file or directory\n"),
        (
            ["parse", "test_predictions.json", "away/results.json"],
            "error: away/results.json: No such file or directory\n",
        ),
        (["package", "gold.json"], "error: gold.json: line 1: not JSON"),
        (["package", "away.json"], "error: away.json: No such file or directory\n"),
        (["score", "away.json", "--gold", "gold.json"], "error: away.json: cannot be read: No such file"),
        (["score", "gold.json", "--gold", "gold.json", "--tasks", "x"], "error: --tasks: unknown task 'x'"),
    ],
)
def test_what_a_user_can_mend_is_clear(arguments: list[str], message: str, folder: Path) -> None:
    done = refsol(folder, *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(message)
    assert sorted(path.name for path in folder.iterdir()) == ["gold.json", "test_predictions.json"]


def test_a_part_of_the_tasks_is_parsed_with_a_warning(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_bytes(jsonl(line("MedDG")))
    done = refsol(tmp_path, "parse", "p.json", "r.json")
    assert done.returncode == 0
    assert done.stderr.startswith("warning: p.json: no line of CMeEE-V2, CMeIE, ")
    assert json.loads((tmp_path / "r.json").read_text("utf-8"))["MedDG"] == [{"sample_id": "s-1", "answer": "答"}]
