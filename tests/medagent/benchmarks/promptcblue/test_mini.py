"""The mini set with its baselines, what is sent of a line, the card, folders scored, trials, answers graded again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from medagent.benchmarks.promptcblue.benchmark import Promptcblue
from medagent.benchmarks.promptcblue.settings import MINI, PromptcblueSettings
from medagent.core.errors import UserError
from medagent.core.options import options
from medagent.engine.folder import command_line
from refsol.promptcblue import parse_file
from tests import runs
from tests.command import medagent
from tests.loopback import ModelServer

LINES = [json.loads(line) for line in (MINI / "test.jsonl").read_text("utf-8").splitlines()]


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")


def run(folder: Path, **changes: Any) -> int:
    return runs.run(Promptcblue(), runs.impatient(PromptcblueSettings)(results_dir=folder, **changes))


def report(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "report.json").read_text("utf-8"))
    return found


def test_the_mini_set_has_two_lines_a_task_and_its_gold(tmp_path: Path) -> None:
    assert len(LINES) == 32
    assert len({line["task_dataset"] for line in LINES}) == 16
    assert parse_file(MINI / "test.jsonl", tmp_path / "gold.json") == ()
    assert (tmp_path / "gold.json").read_bytes() == (MINI / "gold.json").read_bytes()


def test_baselines_are_ceiling_and_floor(tmp_path: Path) -> None:
    assert [run(tmp_path, agent=name) for name in ("gold", "majority", "empty")] == [0, 0, 0]
    values = [report(tmp_path / f"promptcblue_r1_{name}")["overall"]["value"] for name in ("gold", "majority", "empty")]
    assert values[0] == pytest.approx(1)
    assert values[0] > values[1] > values[2]
    ran = medagent("promptcblue", "score", tmp_path / "promptcblue_r1_gold")
    assert (ran.code, "score" in ran.out) == (0, True)
    refused = medagent("promptcblue", "score", tmp_path)
    assert refused.code == 1


def test_a_baseline_needs_right_answers(tmp_path: Path) -> None:
    data = tmp_path / "t.json"
    data.write_text(json.dumps({**LINES[0], "target": ""}, ensure_ascii=False), "utf-8")
    with pytest.raises(UserError, match="the data lacks the right answer to 1 items"):
        run(tmp_path, data=data, agent="gold")
    with pytest.raises(UserError, match="name a FILE of examples"):
        run(tmp_path, data=data, model="m", few_shot="1")


def test_prompt_and_examples_are_sent_and_kept_by_digest(tmp_path: Path) -> None:
    with ModelServer("答") as server:
        changes = {"model": "m", "base_url": [server.url], "prompt": "先想。\n{input}", "few_shot": "1", "limit": 3}
        run(tmp_path, **changes)
        assert len(server.calls) == 3
        messages = server.calls[0].body["messages"]
        with pytest.raises(UserError, match="prompt-digest"):
            run(tmp_path, **{**changes, "prompt": "{input}!"})
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    assert all(message["content"].startswith("先想。\n") for message in messages[::2])
    with pytest.raises(UserError, match=r"--prompt: does not contain \{input\}"):
        run(tmp_path, model="m", prompt="x", round="r2")


def test_a_gbk_file_is_one_line_and_read_as_such(tmp_path: Path) -> None:
    (tmp_path / "gbk.json").write_bytes((MINI / "test.jsonl").read_text("utf-8").encode("gbk"))
    with pytest.raises(UserError, match="not UTF-8, probably GBK; try --encoding gbk") as raised:
        run(tmp_path, data=tmp_path / "gbk.json", agent="gold")
    assert "\n" not in str(raised.value)
    assert run(tmp_path, data=tmp_path / "gbk.json", agent="gold", encoding="gb18030", gold=MINI / "gold.json") == 0


def test_at_most_twenty_problems_are_listed(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{\n" * 50)
    ran = medagent("run", "promptcblue", "--data", tmp_path / "bad.json", "--model", "m")
    assert (ran.code, len(ran.err.splitlines()), ran.err.splitlines()[-1]) == (1, 21, "and 30 more")


def test_the_card_is_in_run_json(tmp_path: Path) -> None:
    card = tmp_path / "card.toml"
    card.write_text('backbone = "Q"\ntrained_share = 0.8\ndata = "train"\n')
    run(tmp_path, agent="gold", card=card)
    settings = json.loads((tmp_path / "promptcblue_r1_gold" / "run.json").read_text("utf-8"))["settings"]
    assert (settings["card:backbone"], settings["card:trained_share"]) == ("Q", 0.8)
    command = command_line("medagent run promptcblue", settings, options(PromptcblueSettings))
    assert "card:" not in command, "a fact is no option of the command"
    card.write_text("trained_share = 200\n")
    with pytest.raises(UserError, match=r"card\.toml: --"):
        run(tmp_path, agent="gold", card=card, round="r2")


def test_thinking_that_was_left_in_is_said_and_scored_again_for_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = {line["input"]: line["target"] for line in LINES}
    with ModelServer(lambda body: f"<think>嗯</think>\n{answers[body['messages'][-1]['content']]}") as server:
        assert run(tmp_path, model="m", base_url=[server.url], limit=6) == 2
        assert "6 of 6 answers begin with a <think> block" in capsys.readouterr().out
        again = {"answers": tmp_path / "promptcblue_r1_m", "strip_thinking": True, "round": "again", "limit": 6}
        assert run(tmp_path, **again) == 0
        assert len(server.calls) == 6
    assert report(tmp_path / "promptcblue_again_m")["overall"]["value"] == pytest.approx(1)


def test_the_verdicts_of_a_file_are_compared(tmp_path: Path) -> None:
    lines = [{**line, "correct": number != 1} for number, line in enumerate(LINES)]
    path = tmp_path / "theirs.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    words = ("grade", "promptcblue", "--answers", path, "--full", "--quiet", "--results-dir", tmp_path)
    ran = medagent(*words)
    told = " ".join(ran.out.split())
    assert (ran.code, "Equal to the recorded verdict in 27 of 28; different: " in told) == (0, True)
    assert "With a recorded verdict but not graded here: 4 items" in told
    assert medagent(*words, "--expect-recorded").code == 1


def test_trials_are_one_mean_and_no_more_samples(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(tmp_path, agent="majority", limit=4)
    run(tmp_path, agent="majority", limit=4, trials=3, round="three")
    single, three = report(tmp_path / "promptcblue_r1_majority"), report(tmp_path / "promptcblue_three_majority")
    assert single["overall"]["interval"] == pytest.approx(three["overall"]["interval"])
    assert "PromptCBLUE (16 tasks, CCKS 2023), mean of 3 trials" in capsys.readouterr().out
