"""The bundled items and imaps: the page's commands, ceilings, other responses, metrics in three parts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from medagent.benchmarks.imapscore.settings import BUNDLED
from tests.command import medagent


def test_the_pages_commands_work_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "over 12 of 12 items" in medagent("imapscore", "score", "bundled").out
    assert "score =" in medagent("imapscore", "explain", "bundled", "en-3").out
    words = ("--imaps", "bundled", "--metric", "rouge-l", "--metric", "rouge-l+imap", "--draws", "5")
    ran = medagent("imapscore", "correlate", "bundled", *words)
    assert (ran.code, "gain on imaps, spearman × 100" in " ".join(ran.out.split())) == (0, True)


def test_metrics_by_compression_and_by_disagreement(tmp_path: Path) -> None:
    rows = [json.loads(line) for line in (BUNDLED / "items.jsonl").read_text("utf-8").splitlines()]
    for number, row in enumerate(rows):
        row["Accuracy_scores"] = [row["Average_accuracy_score"], min(5, row["Average_accuracy_score"] + number / 12)]
        row["scores"] = {"bertscore": 0.5 + number / 30}
    rated = tmp_path / "rated.jsonl"
    rated.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    words = ("--imaps", "bundled", "--metric", "bertscore", "--draws", "2")
    by_raters = medagent("imapscore", "correlate", rated, *words, "--by", "disagreement").out
    assert by_raters.count("disagreement 0.") >= 3
    by_length = medagent("imapscore", "correlate", rated, *words, "--by", "compression").out
    assert "bertscore" in by_length
    assert "compression 0." in by_length
    refused = medagent("imapscore", "correlate", "bundled", *words[:2], "--metric", "bleu", "--by", "disagreement")
    assert (refused.code, "the scores of two raters" in refused.err) == (1, True)


def test_scores_of_an_empty_file_are_no_success(tmp_path: Path) -> None:
    (tmp_path / "none.jsonl").write_text("")
    assert medagent("imapscore", "score", tmp_path / "none.jsonl").code == 2


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"id": "en-1", "answer": "x"}], "the answer is missing or empty for 11 items (first: en-2)"),
        ([{"id": "xx", "answer": "x"}], "xx does not match any item of the data"),
    ],
)
def test_responses_of_another_file_must_be_whole(tmp_path: Path, rows: list[Any], message: str) -> None:
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    ran = medagent("run", "imapscore", "--answers", tmp_path / "a.jsonl", "--model", "m")
    assert (ran.code, message in ran.err) == (1, True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('question = "no field"', "question: does not contain {question}"),
        ('other = "x"', "other: unknown prompt text, or not a text"),
        ("question =", "cannot be read as TOML"),
    ],
)
def test_bad_prompts_are_one_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "p.toml").write_text(text, "utf-8")
    ran = medagent("run", "imapscore", "--prompt", tmp_path / "p.toml", "--model", "m")
    assert (ran.code, message in ran.err) == (1, True)
