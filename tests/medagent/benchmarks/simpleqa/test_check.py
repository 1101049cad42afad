"""Judges put to cases whose label is known; the published judge prompt; export to OpenCompass."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from medagent.core.errors import UserError
from refsol.simpleqa.cases import PARTIAL, judge_cases
from refsol.simpleqa.prompts import judge_prompt
from refsol.simpleqa.published import JUDGE_PROMPTS
from refsol.simpleqa.score import label_of
from tests.command import Ran, medagent
from tests.loopback import ModelServer
from tests.medagent.benchmarks.simpleqa.oracle import Oracle, run, run_folder, seen_by_judge, write_items
from tests.shared_data import SHARED, need

CASES = {(case.question, case.reply): case for case in judge_cases()}
REFERENCE = SHARED / "simpleqa" / "HuSimpleQA.py"


def knowing(body: dict[str, Any]) -> str:
    seen = seen_by_judge(body)
    case = CASES[seen["question"], seen["reply"]]
    return json.dumps({"evaluation": "not_attempted" if case.kind == PARTIAL else case.label})


def check(server: ModelServer, folder: Path, *words: object) -> Ran:
    return medagent(
        *(
            "judge",
            "check",
            "simpleqa",
            "--judge",
            "j",
            "--judge-base-url",
            server.url,
            "--results-dir",
            folder,
            "--quiet",
        ),
        *words,
    )


def test_there_are_the_published_cases_and_200_more() -> None:
    ids = [case.id for case in judge_cases()]
    assert len(set(ids)) == len(ids) == 236
    assert sum(case_id.startswith("own-") for case_id in ids) == 200
    kinds = {case.kind for case in judge_cases()}
    assert {"a number, right to its last digit", "a name, written otherwise", PARTIAL} <= kinds


def test_a_judge_that_knows_may_be_trusted_and_the_run_says_so(tmp_path: Path) -> None:
    with ModelServer(reply=knowing) as server:
        ran = check(server, tmp_path)
        assert len(server.calls) == 236
    assert (ran.code, "100.0%" in ran.out, "not to be trusted" in ran.out) == (0, True, False)
    with ModelServer(reply=Oracle()) as server:
        run(server, tmp_path, lang=("hu",), limit=1)
    assert "judge j may be trusted: agreed on 100.0% of 236 known cases" in medagent("grade", run_folder(tmp_path)).out


def test_a_judge_that_says_yes_to_all_is_not_trusted(tmp_path: Path) -> None:
    with ModelServer(reply='{"evaluation": "CORRECT"}') as server:
        ran = check(server, tmp_path)
    assert ran.code == 2
    assert "judge j is not to be trusted alone" in ran.out
    assert "a wrong answer" in ran.out.partition("most often wrong:")[2]
    shown = medagent("show", tmp_path / "simpleqa-check_r1_j", "j/own-01-06").out
    assert "the liver" in shown


def published(question: str, gold: str, prediction: str) -> str:
    """The message of OpenCompass' judge, as its own code makes it."""
    module = ast.parse(REFERENCE.read_text("utf-8"))
    (texts,) = (ast.literal_eval(node.value) for node in module.body if isinstance(node, ast.Assign))
    user = texts["user_prompt"].replace("{question}", question).replace("{answer}", gold)
    return str((texts["system_prompt"] + user).replace("{prediction}", prediction))


def test_the_published_prompt_is_sent_byte_for_byte(tmp_path: Path) -> None:
    ran = medagent("simpleqa", "prompt", need(REFERENCE))
    assert (ran.code, JUDGE_PROMPTS["published"] in ran.out) == (0, True), ran.err
    questions = ['Ki az "{answer}" a {prediction} előtt?', "Mi {gold} és {{question}}?"]
    data = write_items(
        tmp_path / "data.jsonl",
        [{"question": text, "answer": 'a "{prediction}"\n{question}'} for text in questions],
    )
    answer = '<think>hm</think>```json\n{"answer": "{question} {answer} {reply}"}\n```'
    with ModelServer(reply=lambda body: answer if body["model"] == "m" else '{"evaluation": "CORRECT"}') as server:
        run(server, tmp_path, lang=("hu",), data=data, judge_prompt="published")
        sent = [call.body["messages"] for call in server.calls if call.body["model"] == "j"]
        check(server, tmp_path, "--judge-prompt", "published")
    expected = {published(question, 'a "{prediction}"\n{question}', answer) for question in questions}
    assert [[message["role"] for message in messages] for messages in sent] == [["user"], ["user"]]
    assert {messages[0]["content"] for messages in sent} == expected
    report = json.loads((tmp_path / "simpleqa-check_r1_j" / "report.json").read_text("utf-8"))
    assert report["settings"]["judge-prompt-digest"] == JUDGE_PROMPTS["published"]


def test_a_prompt_that_was_not_copied_is_refused(tmp_path: Path) -> None:
    with ModelServer(reply=Oracle()) as server, pytest.raises(UserError, match="medagent simpleqa prompt CHECKOUT"):
        run(server, tmp_path, lang=("hu",), judge_prompt="published-v1")


def test_values_are_formatted_in_once_and_without_a_fence(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(
        'labels = "json"\ninsert = "formatted"\nuser = "Q {question} G {gold} P {reply}"', "utf-8"
    )
    prompt = judge_prompt(tmp_path / "p.toml")
    filled = prompt.fill('Ki "ő"? {gold}', "én", '```json\n{"answer": "te"}\n```')
    assert filled == 'Q Ki "ő"? {gold} G én P {"answer": "te"}'
    assert prompt.digest != judge_prompt().digest


@pytest.mark.parametrize(
    "text",
    [
        "x = 1",
        "JUDGE_PROMPT = 5",
        "JUDGE_PROMPT = {'user_prompt': 'x'}",
        "def",
        "JUDGE_PROMPT = {'system_prompt': 'a', 'user_prompt': '{question} {answer} {pred_answer}'}",
        "JUDGE_PROMPT = {'system_prompt': 'a', 'user_prompt': '{question} {answer} {prediction}'}",
    ],
)
def test_a_file_without_the_prompt_is_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "s.py").write_text(text, "utf-8")
    ran = medagent("simpleqa", "prompt", tmp_path / "s.py")
    assert (ran.code, ran.err.startswith(f"medagent: {tmp_path / 's.py'}: ")) == (1, True)


def test_a_partial_list_is_judged_on_the_prompts_side() -> None:
    partial = [case for case in judge_cases() if case.kind == PARTIAL]
    assert {case.accepted("bundled") for case in partial} == {("not_attempted",)}
    assert {case.accepted("published") for case in partial} == {("incorrect",)}
    assert {case.accepted("other") for case in partial} == {("incorrect", "not_attempted")}
    assert label_of("Correct", "robust") == "correct"


def test_a_run_is_exported_and_read_back_with_the_same_figures(tmp_path: Path) -> None:
    with ModelServer(reply=Oracle()) as server:
        run(server, tmp_path, limit=6)
    ran = medagent("simpleqa", "export", run_folder(tmp_path), tmp_path / "oc")
    assert ran.code == 0
    assert len(ran.out.splitlines()) == 4  # predictions and results of two languages
    ours = json.loads(medagent("simpleqa", "score", run_folder(tmp_path), "--json").out)[0]["sections"]
    theirs = json.loads(medagent("simpleqa", "score", tmp_path / "oc", "--json").out)
    assert [scored["sections"][0]["total"] for scored in theirs] == [section["total"] for section in ours[:2]]
    assert medagent("simpleqa", "export", tmp_path, tmp_path / "x").code == 1
