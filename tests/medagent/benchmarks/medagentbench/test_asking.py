"""How a model is asked: prompts of one's own, seeds of trials, and replies that runs share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.command import Ran
from tests.medagent.benchmarks.medagentbench.runs import results, rows, run

MODEL = """
import json
import medagent

class Noting(medagent.Model):
    async def complete(self, messages, *, tools=(), seed=None, session=""):
        with open("asked.jsonl", "a") as file:
            said = [[one.role, one.content] for one in messages]
            file.write(json.dumps({"said": said, "seed": seed, "tools": len(tools), "session": session}) + "\\n")
        usage = medagent.Usage(prompt=7, completion=3)
        return medagent.Completion("FINISH([1])", usage, model="noting-2", fingerprint="fp_1", cost=0.5)
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("noting.py").write_text(MODEL, encoding="utf-8")
    Path("prompt.txt").write_text("Q: {question} {json} at {api_base}", encoding="utf-8")
    Path("system.txt").write_text("Be brief.", encoding="utf-8")


def ask(*words: object) -> Ran:
    return run(Path("results"), "--model", "noting.py:Noting", "--types", "task2", "--limit", 2, *words)


def asked() -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path("asked.jsonl").read_text(encoding="utf-8").splitlines()]


def settings(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path("results", name, "run.json").read_text(encoding="utf-8"))["settings"]
    return found


@pytest.mark.parametrize("protocol", ["text", "tools"])
def test_prompts_of_ones_own_are_sent_and_their_digests_kept(protocol: str) -> None:
    ran = ask("--protocol", protocol, "--prompt", "prompt.txt", "--system", "system.txt", "--limit", 1)
    assert ran.code == 0
    (first, *_) = asked()
    assert first["said"][0] == ["system", "Be brief."]
    assert first["said"][1][1].startswith("Q: ")
    assert first["said"][1][1].endswith(" {json} at http://localhost:8080/fhir/")
    assert (first["tools"] > 0) is (protocol == "tools")
    custom = settings("v2_r1_Noting")
    assert {len(custom["prompt-digest"]), len(custom["system-digest"])} == {64}
    if protocol == "tools":
        return
    assert ask("--round", "plain", "--limit", 1).code == 0
    plain = settings("v2_plain_Noting")
    assert (plain["prompt-digest"], plain["system-digest"]) == (None, None)
    assert plain["prompts-digest"] != custom["prompts-digest"]
    Path("system.txt").write_text("Be long.", encoding="utf-8")
    changed = ask("--protocol", protocol, "--prompt", "prompt.txt", "--system", "system.txt", "--limit", 1)
    assert "the run uses other settings (prompts-digest " in changed.err
    assert "system-digest" in changed.err


@pytest.mark.parametrize(
    ("words", "text", "problem"),
    [
        (("--prompt", "prompt.txt"), "What is to be done?", "prompt.txt: lacks {question}"),
        (("--prompt", "prompt.txt"), " \n", "prompt.txt: is empty"),
        (("--system", "missing.txt"), "", "missing.txt: "),
    ],
)
def test_a_prompt_that_cannot_be_used(words: tuple[str, ...], text: str, problem: str) -> None:
    Path("prompt.txt").write_text(text, encoding="utf-8")
    ran = ask(*words)
    assert (ran.code, ran.out) == (1, "")
    assert problem in ran.err
    assert not Path("results").exists()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--agent", "nop", "--system", "system.txt"), "--system needs a model that acts by itself"),
        (("--agent", "nop", "--cache", "kept"), "--cache needs --model"),
        (("--agent", "nop", "--trial-seed", "3"), "--trial-seed needs --model"),
    ],
)
def test_options_that_would_do_nothing(words: tuple[str, ...], problem: str) -> None:
    ran = run(Path("results"), *words)
    assert (ran.code, problem in ran.err) == (1, True)


def test_the_seeds_of_trials_and_a_hint_where_trials_are_the_same_request() -> None:
    ran = ask("--trials", 3, "--limit", 1)
    assert [request["seed"] for request in asked()] == [None, 2, 3]
    assert "3 trials at temperature 0" in ran.err
    ran = ask("--trials", 3, "--limit", 1, "--trial-seed", 40, "--round", "seeded", "--temperature", 0.7, "--full")
    assert sorted(request["seed"] for request in asked()[3:]) == [40, 41, 42]
    assert "at temperature 0" not in ran.err
    assert "trial-seed 40" in ran.out
    assert settings("v2_seeded_Noting")["trial-seed"] == 40


def test_runs_share_replies_by_the_whole_request() -> None:
    first = ask("--cache", "kept", "--round", "a")
    assert (first.code, len(asked()), "from the cache" in first.out) == (0, 2, False)
    second = ask("--cache", "kept", "--round", "b", "--full")
    assert (second.code, len(asked())) == (0, 2)
    assert "cache kept, 2 of 2 replies from the cache" in second.out
    assert "2 model calls (2 from the cache), 0 + 0 tokens, $0.0000" in second.out
    served = [row["spent"]["served"] for row in rows(Path("results/v2_b_Noting"))]
    assert served == [["noting-2 (fp_1)"]] * 2
    assert "Model: noting.py:Noting, served as noting-2 (fp_1), temperature 0" in second.out
    answers = [
        [result["answer"] for result in results(Path("results"), f"v2_{name}_Noting")["results"]] for name in "ab"
    ]
    assert answers[0] == answers[1] == ["[1]", "[1]"]
    # Another temperature, seed or prompt is another request; without --cache nothing is reused.
    changes = (("--temperature", 1), ("--trial-seed", 1), ("--system", "system.txt"))
    for number, words in enumerate(changes, 1):
        ask("--cache", "kept", "--round", f"c{number}", *words)
        assert len(asked()) == 2 + 2 * number
    ask("--round", "without")
    assert len(asked()) == 10


def test_a_damaged_reply_and_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    ask("--cache", "kept", "--limit", 1)
    (file,) = Path("kept").rglob("*.json")
    file.write_text("{", encoding="utf-8")
    ran = ask("--cache", "kept", "--limit", 1, "--round", "again")
    assert ran.code == 1
    assert f"{file.name}: is damaged; remove it, and the model is called again" in ran.err
    refused = ask("--cache", "noting.py/kept", "--round", "third")
    assert (refused.code, "noting.py/kept: the folder for replies cannot be created" in refused.err) == (1, True)
