"""What a run of imapScore shows beside its score, solved examples before its prompts, and Inspect's default logs."""

from __future__ import annotations

import json
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import zipfile_zstd

from medagent._api import load_run
from medagent.benchmarks.imapscore.benchmark import Imapscore
from medagent.engine.blocks import DotsBlock, ScatterBlock
from refsol.imapscore.records import read_recordings
from refsol.imapscore.score import score_recordings
from tests.command import Ran, medagent
from tests.loopback import ModelServer
from tests.medagent.benchmarks.imapscore.oracle import DATA, ITEMS, Oracle

ROOT = Path(__file__).resolve().parents[4]
EXAMPLE = {
    "question": "Which tablets help against hay fever?",
    "question_imap": "Query-drug-?",
    "answer": "Cetirizine helps.",
    "answer_imap": "- Inform-drug-cetirizine",
}


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")


def run(server: ModelServer, folder: Path, *words: object) -> Ran:
    return medagent("run", "imapscore", "--model", "m", "--base-url", server.url, "--results-dir", folder, "-q", *words)


def test_the_report_has_charts_of_scores_with_ceiling_floor_majority_and_what_lambda_takes_off(tmp_path: Path) -> None:
    with ModelServer(reply=Oracle()) as server:
        ran = run(server, tmp_path)
    assert ran.code == 0, ran.err
    results = score_recordings(read_recordings(DATA / "imaps.jsonl"))
    scored = [result for result in results if result.value is not None]
    mean = sum(float(result.value or 0) for result in scored) / len(scored)
    penalty = sum(float(sum(term.penalty for term in result.terms)) for result in scored) / len(scored)
    assert penalty > 0
    loaded = load_run(tmp_path / "imapscore_r1_m")
    lines = {line.name: line.value for section in loaded.report.table for line in section.lines}
    assert lines["without λ"] == pytest.approx(mean + penalty)
    assert 0 == lines["floor: nothing said"] <= (lines["majority: the most frequent value of each term"] or 0)
    blocks = Imapscore().panels(loaded.report, loaded.scores)
    dots = next(block for block in blocks if isinstance(block, DotsBlock))
    values = {line[0]: line[2] for line in dots.lines}
    assert values["imapScore"] == pytest.approx(mean)
    assert values["λ, taken off"] == pytest.approx(penalty)
    assert values["without λ"] == pytest.approx(mean + penalty)
    assert dict(dots.marks) == {"ceiling": lines["ceiling: the label itself"], "floor": 0.0}
    ceilings = next(block for block in blocks if isinstance(block, ScatterBlock) and "ceiling" in block.title)
    assert len(ceilings.points) == len(scored)
    assert all(score <= ceiling for _, ceiling, score in ceilings.points)
    page = tmp_path / "report.html"
    assert medagent("report", tmp_path / "imapscore_r1_m", "-o", page).code == 0
    assert "majority" in ran.out


def test_examples_stand_before_the_extractions_as_turns(tmp_path: Path) -> None:
    file = tmp_path / "examples.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in (EXAMPLE, {**EXAMPLE, "answer_imap": "Inform-None"})))
    with ModelServer(reply=Oracle()) as server:
        assert run(server, tmp_path, "--limit", "2").code == 0
        before = len(server.calls)
        ran = run(server, tmp_path, "--limit", "2", "--few-shot", file, "--round", "shots")
        calls = server.calls[before:]
        assert ran.code == 0, ran.err
        assert len(calls) == 2 * 3 * 3, "only relations, which have no examples, are known from the other round"
        refused = run(server, tmp_path, "--limit", "2", "--round", "shots")
    assert "few-shot-digest" in refused.err
    sent = [call.messages for call in calls]
    question = next(messages for messages in sent if "Text: " in messages[-1]["content"])
    assert [message["role"] for message in question] == ["user", "assistant"] * 2 + ["user"]
    assert question[0]["content"].endswith(f"Text: {EXAMPLE['question']}")
    assert question[1]["content"] == "Query-drug-?"
    answer = next(messages for messages in sent if "Answer: " in messages[-1]["content"])
    assert answer[0]["content"].endswith(f"Answer: {EXAMPLE['answer']}")
    assert [answer[place]["content"] for place in (1, 3)] == ["Inform-drug-cetirizine", "Inform-None"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"question": "x"}], "1: needs a question and a question_imap with a Query"),
        ([{**EXAMPLE, "question_imap": "drug?"}], "1: needs a question and a question_imap with a Query"),
        ([{**EXAMPLE, "answer_imap": "cetirizine"}], "1: needs an answer and an answer_imap with an Inform"),
        ([EXAMPLE, {**EXAMPLE, "answer": None}], "2: needs an answer and an answer_imap with an Inform"),
        ([], "contains no examples"),
    ],
)
def test_bad_examples_are_named_with_their_line(tmp_path: Path, rows: list[Any], message: str) -> None:
    file = tmp_path / "examples.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    ran = medagent("run", "imapscore", "--model", "m", "--few-shot", file, "--results-dir", tmp_path)
    assert (ran.code, message in ran.err) == (1, True), ran.err


def test_the_baselines_of_other_benchmarks_are_lines_of_the_table(tmp_path: Path) -> None:
    ran = medagent("run", "imapscore", "--agent", "majority", "--results-dir", tmp_path)
    assert (ran.code, "every run prints the ceiling, the majority and the floor" in ran.err) == (1, True)


def test_responses_of_a_log_as_inspect_packs_it(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "log.eval", "w", zipfile_zstd.ZIP_ZSTANDARD) as archive:
        archive.writestr("header.json", json.dumps({"eval": {"model": "m"}}))
        for item in ITEMS:
            message = {"role": "assistant", "content": item.response}
            sample = {"id": item.id, "epoch": 1, "input": item.question, "output": {"choices": [{"message": message}]}}
            archive.writestr(f"samples/{item.id}_epoch_1.json", json.dumps(sample))
    with ModelServer(reply=Oracle()) as server:
        ran = run(server, tmp_path, "--answers", tmp_path / "log.eval")
    assert ran.code == 0, ran.err
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert all(
        any(requirement.startswith("zipfile-zstd") for requirement in extras[name]) for name in ("imapscore", "inspect")
    )
