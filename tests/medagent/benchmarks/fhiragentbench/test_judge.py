"""Judged runs: two calls a row, what is asked again, rule sets, panels, the comparison beside them, judge check."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from medagent.benchmarks.fhiragentbench._rubric import AnswerRubric
from medagent.core.errors import UserError
from tests.command import medagent
from tests.loopback import ModelServer
from tests.medagent.benchmarks.fhiragentbench.conftest import Run
from tests.medagent.benchmarks.fhiragentbench.test_run import line
from tests.medagent.reports.test_report import block, items
from tests.shared_data import DATA, SHARED, need

PUBLISHED = SHARED / "fhiragentbench" / "published"
ANSWERS = {
    "q1": ["male"],
    "q2": ["There were several visits to the emergency room"],
    "q3": ["Nobody knows"],
    "q4": ["2"],
    "q5": ["9.9"],
    "q6": ["Icu"],
}


def judge(body: dict[str, Any]) -> str:
    """Says that nobody knows is no answer, that 9.9 is wrong, and everything else right."""
    text = body["messages"][-1]["content"]
    if "question answered" in text:
        return " no answer. " if "Nobody knows" in text else "question answered"
    return "'0'" if "9.9" in text else "1"


@pytest.fixture
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    path = tmp_path / "answers.json"
    path.write_text(json.dumps({f"{name}#1": [f"FINISH({json.dumps(said)})"] for name, said in ANSWERS.items()}))
    return path


def judged(run: Run, answers: Path, reply: Any, *words: Any) -> tuple[dict[str, Any], list[Any]]:
    with ModelServer(reply=reply) as server:
        model = ("--model", f"scripted:{answers}", "--judge", "j", "--judge-base-url", server.url)
        ran = run(*model, *words, "--json")
        assert ran.code == 0, ran.err
        return json.loads(ran.out), server.calls


def right(report: dict[str, Any]) -> set[str]:
    return {item["item"] for item in report["items"] if item["correct"]}


def test_two_calls_a_row_and_the_comparison_beside(run: Run, answers: Path, tmp_path: Path) -> None:
    report, calls = judged(run, answers, judge)
    assert right(report) == {"q1", "q2", "q3", "q4", "q6"}
    assert len(calls) == 6 + 5  # q3 is decided by the first call
    assert all(len(call.body["messages"]) == 1 and call.body["temperature"] == 0 for call in calls)
    beside = line(report, "comparison without a judge")
    assert (beside["n"], beside["value"], beside["more"]["decides"]) == (4, 1.0, 4)
    assert any(note.startswith("own judge prompt: sha256") for note in report["notes"])
    assert report["spending"]["judge j"]["calls"] == 11
    folder = next(path for path in tmp_path.iterdir() if (path / "run.json").is_file())
    assert "judge j: normalize: no answer." in medagent("show", folder, "q3").out
    again, calls = judged(run, answers, judge)
    assert (calls, again["table"]) == ([], report["table"])


def test_a2a_calls_once(run: Run, answers: Path) -> None:
    report, calls = judged(run, answers, judge, "--rules", "a2a")
    assert (report["rule_set"], len(calls)) == ("a2a", 6)
    assert right(report) == {"q1", "q2", "q3", "q4", "q6"}


def test_unreadable_replies_are_asked_again_five_times_and_then_owed(run: Run, answers: Path) -> None:
    seen: list[str] = []

    def unsure(body: dict[str, Any]) -> str:
        text = body["messages"][-1]["content"]
        if "question answered" not in text and "9.9" in text:
            seen.append(text)
            return "perhaps" if len(seen) < 9 else "0"
        return judge(body)

    with ModelServer(reply=unsure) as server:
        words = ("--model", f"scripted:{answers}", "--judge", "j", "--judge-base-url", server.url)
        ran = run(*words, "--json")
        assert (ran.code, len(seen), json.loads(ran.out)["ungraded"]) == (2, 6, 1)
        ran = run(*words, "--json")
        assert (ran.code, len(seen), json.loads(ran.out)["ungraded"]) == (0, 9, 0)


def test_a_panel_decides_by_majority(run: Run, answers: Path, tmp_path: Path) -> None:
    def split(body: dict[str, Any]) -> str:
        return (
            "0" if body["model"] == "k" and "question answered" not in body["messages"][-1]["content"] else judge(body)
        )

    report, _ = judged(run, answers, split, "--judge", "k", "--judge", "l")
    assert right(report) == {"q1", "q2", "q3", "q4", "q6"}
    assert line(report, "k")["value"] == pytest.approx(2 / 6)
    folder = next(path for path in tmp_path.iterdir() if (path / "run.json").is_file())
    page = tmp_path / "page.html"
    assert medagent("report", folder, "-o", page).code == 0
    votes = block(items(page)["q1.1"][1], "votes")["votes"]
    assert [(name, vote) for name, vote, _, _ in votes] == [("j", True), ("k", False), ("l", True)]


def test_without_a_judge_the_plain_is_decided_and_the_rest_unscored(run: Run, answers: Path) -> None:
    ran = run("--model", f"scripted:{answers}", "--json")
    report = json.loads(ran.out)
    assert (ran.code, right(report)) == (0, {"q1", "q4", "q6"})
    assert [item["item"] for item in report["items"] if item["correct"] is None] == ["q2", "q3"]
    assert line(report, "not decided, so not scored")["n"] == 2


def test_the_published_prompts_have_the_digests_of_the_specification(tmp_path: Path) -> None:
    need(PUBLISHED)
    prompt = AnswerRubric().prompt(f"published={PUBLISHED}")
    filled = prompt.fill("judge", question="{answer}", true_answer="T", answer="A")
    assert "- question : {answer}" in filled or "{answer}" in filled
    path = tmp_path / "evaluation_metrics.py"
    path.write_text((PUBLISHED / "evaluation_metrics.py").read_text().replace("7. Formatting", "7. Format"))
    with pytest.raises(UserError, match="is not the published one"):
        AnswerRubric().prompt(f"published={tmp_path}")


def test_judge_check_asks_the_imported_cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDAGENT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    cases = tmp_path / "judge_cases.jsonl"
    cases.write_bytes(lzma.decompress((DATA / "fhiragentbench" / "judge_cases.jsonl.xz").read_bytes()))
    truth = [json.loads(text) for text in cases.read_text(encoding="utf-8").splitlines()]

    def perfect(body: dict[str, Any]) -> str:
        text = body["messages"][-1]["content"]
        marks = (("Question: ", "question"), ("True answer: ", "true_answer"), ("Answer: ", "answer"))
        found = [case for case in truth if all(f"{mark}{case[name]}\n" in text for mark, name in marks)]
        return str(found[0]["correct"])

    with ModelServer(reply=perfect) as server:
        words = ("judge", "check", "fhir-agentbench", "--judge", "j", "--judge-base-url", server.url, "--quiet")
        missing = medagent(*words, "--results-dir", tmp_path)
        assert (missing.code, "medagent data import judge_cases.jsonl" in missing.err) == (1, True)
        renamed = cases.rename(tmp_path / "cases_of_mine.jsonl")  # recognised by its content
        assert "35 judge cases imported" in medagent("data", "import", renamed).out
        ran = medagent(*words, "--results-dir", tmp_path, "--json")
    assert (ran.code, json.loads(ran.out)["overall"]["value"], len(server.calls)) == (0, 1.0, 35)
