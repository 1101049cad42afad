"""Judges put to cases whose label is known; the published judge prompt; export to OpenCompass."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from medagent.benchmarks.simpleqa.rubric import published_place
from refsol.simpleqa.cases import PARTIAL, judge_cases
from refsol.simpleqa.prompts import judge_prompt, published_judge_prompt
from refsol.simpleqa.score import label_of
from tests.command import Ran, medagent
from tests.loopback import ModelServer
from tests.medagent.benchmarks.simpleqa.oracle import Oracle, run, run_folder, seen_by_judge

CASES = {(case.question, case.reply): case for case in judge_cases()}
SETTING = '''
INSTRUCTIONS = {'en': "{question}"}
JUDGE_PROMPT = {
    'system_prompt': """Be a judge. "Partial": see {below}.""",
    'user_prompt': """Input:
{{
  "question": {question}, "gold": {answer}, "predicted": {pred_answer}
}}
""",
}
raise SystemExit("this file is not run")
'''


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
    assert sum(one.startswith("own-") for one in ids) == 200
    kinds = {case.kind for case in judge_cases()}
    assert {"a number, right to its last digit", "a name, written otherwise", PARTIAL} <= kinds


def test_a_judge_that_knows_may_be_trusted_and_the_run_says_so(tmp_path: Path) -> None:
    with ModelServer(reply=knowing) as server:
        ran = check(server, tmp_path)
        assert len(server.calls) == 236
    assert (ran.code, "100.0 %" in ran.out, "not to be trusted" in ran.out) == (0, True, False)
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


def test_the_published_prompt_is_taken_over_and_sent_as_opencompass_sends_it(tmp_path: Path) -> None:
    setting = tmp_path / "HuSimpleQA_setting.py"
    setting.write_text(SETTING, "utf-8")
    ran = medagent("simpleqa", "prompt", setting)
    assert (ran.code, "sha256" in ran.out) == (0, True)
    with ModelServer(reply='{"evaluation": "Correct"}') as server:
        words = {"lang": ("hu",), "limit": 1, "judge_prompt": "published"}
        run(server, tmp_path, model=None, agent="gold", judge_base_url=[server.url], **words)
        sent = server.calls[-1].body["messages"]
        check(server, tmp_path, "--judge-prompt", "published")
    assert [message["role"] for message in sent] == ["system", "user"]
    assert sent[0]["content"] == 'Be a judge. "Partial": see {below}.'
    assert sent[1]["content"].startswith('Input:\n{\n  "question": Melyik') or '"question": ' in sent[1]["content"]
    report = json.loads((tmp_path / "simpleqa-check_r1_j" / "report.json").read_text("utf-8"))
    taken = judge_prompt(published_place())
    assert report["settings"]["judge-prompt-digest"] == taken.digest


def test_values_go_in_unescaped_and_without_a_fence(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text(SETTING, "utf-8")
    (tmp_path / "p.toml").write_text(published_judge_prompt(tmp_path / "s.py"), "utf-8")
    prompt = judge_prompt(tmp_path / "p.toml")
    filled = prompt.fill('Ki "ő"?', "én", '```json\n{"answer": "te"}\n```')
    assert filled == 'Input:\n{\n  "question": Ki "ő"?, "gold": én, "predicted": {"answer": "te"}\n}\n'
    assert prompt.digest != judge_prompt().digest


@pytest.mark.parametrize("text", ["x = 1", "JUDGE_PROMPT = 5", "JUDGE_PROMPT = {'user_prompt': 'x'}", "def"])
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
    own = json.loads(medagent("simpleqa", "score", run_folder(tmp_path), "--json").out)[0]["sections"]
    theirs = json.loads(medagent("simpleqa", "score", tmp_path / "oc", "--json").out)
    assert [one["sections"][0]["total"] for one in theirs] == [one["total"] for one in own[:2]]
    assert medagent("simpleqa", "export", tmp_path, tmp_path / "x").code == 1
