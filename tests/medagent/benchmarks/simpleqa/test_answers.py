"""Answers that are there already, baselines, what stands before a question, and answers with nothing in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from medagent.core.errors import UserError
from refsol.errors import InputError
from tests.command import Ran, medagent
from tests.loopback import ModelServer
from tests.medagent.benchmarks.simpleqa.oracle import (
    ITEMS,
    Oracle,
    bundled_rows,
    calls_by_model,
    results,
    run,
    run_folder,
    seen_by_judge,
    write_items,
)


def grade(server: ModelServer, folder: Path, *words: object) -> Ran:
    places = ("--judge", "j", "--judge-base-url", server.url, "--results-dir", folder / "results", "--quiet")
    return medagent("grade", "simpleqa", *words, *places)


def answers(path: Path, wrong: int = 0) -> Path:
    said = [{"answer": "rossz" if n < wrong else item.answer} for n, item in enumerate(ITEMS)]
    rows = [{"id": item.id, "answer": json.dumps(reply)} for item, reply in zip(ITEMS, said, strict=True)]
    return write_items(path, rows)


def test_answers_of_a_file_are_judged_and_their_model_is_not_asked(tmp_path: Path) -> None:
    with ModelServer(reply=Oracle()) as server:
        ran = grade(server, tmp_path, "--answers", answers(tmp_path / "theirs.jsonl", wrong=4), "--lang", "hu")
        assert calls_by_model(server) == {"j": 40}
    assert (ran.code, ran.err) == (0, "")
    assert "husimpleqa: hu, judged by j" in ran.out
    folder = tmp_path / "results" / "simpleqa-husimpleqa_r1_theirs"
    assert results(folder)["sections"][0]["total"]["rows"]["correct"] == 36
    assert "accepted: " in medagent("show", folder, "H01/hu").out


def test_a_run_is_answers_too(tmp_path: Path) -> None:
    with ModelServer(reply=Oracle()) as server:
        run(server, tmp_path, "strict-j", ids=("H01", "H02", "H03"))
        ran = grade(server, tmp_path, "--answers", run_folder(tmp_path), "--ids", "H01,H02,H03")
        assert (ran.code, calls_by_model(server)) == (0, {"m": 6, "strict-j": 6, "j": 6})


def test_the_model_of_exported_answers_is_their_logs(tmp_path: Path) -> None:
    """The path of a record has one folder for the model, however many slashes are in the model's name."""
    samples = [{"id": "H01", "output": {"completion": json.dumps({"answer": ITEMS[1].answer})}}]
    log = {"status": "success", "eval": {"model": "accounts/fireworks/models/llama"}, "samples": samples}
    (tmp_path / "log.json").write_text(json.dumps(log))
    with ModelServer(reply=Oracle()) as server:
        words = ("--answers", tmp_path / "log.json", "--lang", "hu", "--ids", "H01")
        assert grade(server, tmp_path, *words).code == 0
    (folder,) = (tmp_path / "results").iterdir()
    done = medagent("export", "every-eval-ever", folder, tmp_path / "out")
    assert (done.code, done.err) == (0, "")
    record = Path(done.out.split()[0])
    model = json.loads(record.read_text())["model_info"]
    assert model["id"] == "accounts/fireworks/models/llama"
    assert "served_as" not in model["additional_details"], "the judge is not the model"
    assert record.parent == tmp_path / "out/data/simpleqa/accounts/fireworks--models--llama"


def test_answers_without_a_verdict_are_not_exported(tmp_path: Path) -> None:
    with ModelServer(reply=lambda call: "no idea") as server:
        words = ("--answers", answers(tmp_path / "a.jsonl"), "--lang", "hu", "--ids", "H01", "--allow-unread", 1)
        grade(server, tmp_path, *words)
    (folder,) = (tmp_path / "results").iterdir()
    done = medagent("export", "every-eval-ever", folder, tmp_path / "out")
    assert (done.code, done.out, done.err) == (1, "", f"medagent: {folder}: it contains no graded item\n")


def test_items_without_an_answer_are_owed_and_not_wrong(tmp_path: Path) -> None:
    path = answers(tmp_path / "a.jsonl")
    path.write_text("\n".join(path.read_text("utf-8").splitlines()[:30]) + "\n", "utf-8")
    with ModelServer(reply=Oracle()) as server:
        ran = grade(server, tmp_path, "--answers", path, "--lang", "hu")
    assert ran.code == 2
    assert "10 × model_error" in ran.out
    assert "contains no answer for this unit" in " ".join(ran.out.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--answers", "a.jsonl", "--model", "m"), "--answers and --model exclude each other"),
        (("--answers", "a.jsonl", "--few-shot", "2"), "--answers and --few-shot exclude each other"),
        (("--answers", "a.jsonl"), "could belong to en, hu; add the name"),
        (("--answers", "none.jsonl"), "none.jsonl: cannot be read"),
    ],
)
def test_what_does_not_go_together_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    answers(tmp_path / "a.jsonl")
    ran = medagent("grade", "simpleqa", *words, "--judge", "j")
    assert (ran.code, ran.out, message in ran.err) == (1, "", True)


def test_baselines_are_ceiling_and_floor(tmp_path: Path) -> None:
    with ModelServer(reply='{"evaluation": "CORRECT"}') as server:
        judge = {
            "judge_base_url": [server.url],
            "model": None,
            "lang": ("hu",),
            "ids": ("H01", "H02", "H03", "H04", "H05"),
        }
        assert run(server, tmp_path, agent="empty", **judge) == 0
        empty = results(tmp_path / "simpleqa-husimpleqa_r1_empty")["rows"]
        said = [seen_by_judge(call.body)["reply"] for call in server.calls]
        server.calls.clear()
        run(server, tmp_path, agent="gold", round="g", trials=2, **judge)
        gold = [seen_by_judge(call.body)["reply"] for call in server.calls]
        server.calls.clear()
        run(server, tmp_path, agent="majority", **judge)
        most = {seen_by_judge(call.body)["reply"] for call in server.calls}
    assert (len(empty), said) == (5, [""] * 5)
    assert sorted(gold) == sorted(item.answer for item in ITEMS[:5])
    assert len(most) == 1


def test_system_and_examples_stand_before_the_question(tmp_path: Path) -> None:
    (tmp_path / "system.txt").write_text("Légy rövid.", "utf-8")
    with ModelServer(reply=Oracle()) as server:
        changes = {"system": str(tmp_path / "system.txt"), "few_shot": "2", "lang": ("hu",), "ids": ("H03",)}
        run(server, tmp_path, **changes)
        sent = next(call.body["messages"] for call in server.calls if call.body["model"] == "m")
        (tmp_path / "system.txt").write_text("Légy hosszú.", "utf-8")
        with pytest.raises(UserError, match="system-digest"):
            run(server, tmp_path, **changes)
    assert [message["role"] for message in sent] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert sent[0]["content"] == "Légy rövid."
    assert json.loads(sent[2]["content"]) == {"answer": ITEMS[0].answer, "confidence_score": 100}
    assert ITEMS[2].question in sent[-1]["content"]  # the examples are not asked


def test_examples_of_a_file(tmp_path: Path) -> None:
    shots = write_items(tmp_path / "shots.jsonl", [{"question": "Ki?", "answer": "Ő", "language": "hu"}])
    with ModelServer(reply=Oracle()) as server:
        run(server, tmp_path, few_shot=str(shots), ids=("H01",))
        sent = {len(call.body["messages"]) for call in server.calls if call.body["model"] == "m"}
        assert sent == {1, 3}  # none for the English instruction
        bad = write_items(tmp_path / "bad.jsonl", [{"question": "Ki?"}])
        with pytest.raises(InputError, match="contains no text as answer"):
            run(server, tmp_path, few_shot=str(bad), round="r2")


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ({"content": ""}, "2 of 2 answers are empty: H01/hu, H02/hu"),
        ({"content": "44", "finish_reason": "length"}, "2 of 2 answers are cut off by their token limit"),
        ({"content": "<think>I wonder"}, "2 of 2 answers are only thinking"),
        ({"content": "", "reasoning_content": "hm"}, "2 of 2 answers are only thinking"),
    ],
)
def test_answers_with_nothing_in_them_are_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], reply: dict[str, Any], words: str
) -> None:
    finish = reply.pop("finish_reason", "stop")

    def answer(body: dict[str, Any]) -> Any:
        if body["model"] != "m":
            return '{"evaluation": "NOT_ATTEMPTED"}'
        return {"choices": [{"message": {"role": "assistant", **reply}, "finish_reason": finish}]}

    with ModelServer(reply=answer) as server:
        assert run(server, tmp_path, lang=("hu",), ids=("H01", "H02")) == 2
        printed = " ".join(capsys.readouterr().out.split())
        assert words in printed
        assert "more than the 5.0% of --allow-empty" in printed
        assert run(server, tmp_path, lang=("hu",), ids=("H01", "H02"), allow_empty=1.0) == 0
    assert medagent("grade", run_folder(tmp_path)).code == 2


def test_a_question_in_two_languages_is_one_cluster(tmp_path: Path) -> None:
    with ModelServer(reply=Oracle()) as server:
        run(server, tmp_path)
    alone, _, both = (section["total"]["correct_interval"] for section in results(run_folder(tmp_path))["sections"])
    assert both["high"] - both["low"] == pytest.approx(alone["high"] - alone["low"], abs=0.01)


def test_judge_failures_are_named_by_question(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ModelServer(reply=Oracle()) as server:
        run(server, tmp_path, "j", "mute", lang=("hu",), ids=("H01", "H02"))
    assert "no readable label: H01/hu, H02/hu" in capsys.readouterr().out


def test_a_csv_without_its_variant_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "test.csv").write_text("metadata,problem,answer\n{},Who?,Me\n", "utf-8")
    ran = medagent("run", "simpleqa", "--data", tmp_path / "test.csv", "--judge", "j", "--model", "m")
    assert (ran.code, "pass --variant simpleqa or --variant simpleqa-verified" in ran.err) == (1, True)


def test_only_groups_that_the_data_has_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = write_items(tmp_path / "d.jsonl", bundled_rows()[:2])
    with ModelServer(reply=Oracle()) as server:
        run(server, tmp_path, data=data, lang=("hu",))
    printed = capsys.readouterr().out
    assert ("language" in printed, "geography" in printed) == (True, False)


def test_the_verdicts_of_a_file_are_compared(tmp_path: Path) -> None:
    rows = [json.loads(line) for line in answers(tmp_path / "a.jsonl", wrong=2).read_text("utf-8").splitlines()]
    equal = write_items(tmp_path / "equal.jsonl", [{**row, "correct": n > 1} for n, row in enumerate(rows)])
    unequal = write_items(tmp_path / "other.jsonl", [{**row, "correct": int(n > 2)} for n, row in enumerate(rows)])
    with ModelServer(reply=Oracle()) as server:
        ran = grade(server, tmp_path, "--answers", equal, "--lang", "hu", "--expect-recorded")
        assert (ran.code, "Equal to the recorded verdict in 40 of 40" in ran.out) == (0, True), ran.err + ran.out
        ran = grade(server, tmp_path, "--answers", unequal, "--lang", "hu")
        said = " ".join(ran.out.split())
        assert (ran.code, "39 of 40; different: H03/hu (recorded wrong, here right" in said) == (0, True)
        assert grade(server, tmp_path, "--answers", unequal, "--lang", "hu", "--expect-recorded").code == 1
        plain = grade(server, tmp_path, "--answers", tmp_path / "a.jsonl", "--lang", "hu", "--expect-recorded")
        assert (plain.code, "no verdicts to compare" in plain.err) == (1, True)
        rows[4]["correct"] = "yes"
        refused = grade(server, tmp_path, "--answers", write_items(tmp_path / "bad.jsonl", rows), "--lang", "hu")
        assert (refused.code, "bad.jsonl:5: correct: is neither true nor false" in refused.err) == (1, True)


def test_a_judge_s_reply_has_a_limit(tmp_path: Path) -> None:
    words = ("--answers", answers(tmp_path / "a.jsonl"), "--lang", "hu", "--ids", "H01")
    with ModelServer(reply=Oracle()) as server:
        assert grade(server, tmp_path, *words).code == 0
        assert grade(server, tmp_path, *words, "--round", "short", "--judge-max-tokens", 77).code == 0
        assert grade(server, tmp_path, *words, "--round", "none", "--judge-max-tokens", 0).code == 1
        assert [call.body["max_tokens"] for call in server.calls] == [8192, 77]
