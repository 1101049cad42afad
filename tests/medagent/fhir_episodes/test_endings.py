"""Every ending of an episode is explained by its own words, in every benchmark with episodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.command import medagent as command
from tests.loopback import ModelServer, chat_json
from tests.shared_data import SHARED, need

Json = dict[str, Any]
BENCHMARKS = ("medagentbench", "psb-300", "fhir-agentbench")


def cut(text: str, finish: str, completion: int = 80) -> Json:
    reply = chat_json(text, {})
    reply["choices"][0]["finish_reason"] = finish
    reply["usage"] = {"prompt_tokens": 100, "completion_tokens": completion, "total_tokens": 100 + completion}
    return reply


def explained(folder: Path) -> tuple[str, str]:
    """The kind and the reason of the first wrong item."""
    (items,) = folder.rglob("items.jsonl")
    lines = [json.loads(line) for line in items.read_text("utf-8").splitlines()]
    item = next((line for line in lines if line["correct"] is False), lines[0])
    return item["kind"], item["reason"]


GET = "GET http://localhost:8080/fhir/Patient?_count=1"
ENDINGS: dict[str, tuple[Any, tuple[object, ...], str, str]] = {
    "cut": (cut("I would look", "length"), (), "cut-reply", "the reply was cut at 80 tokens"),
    "empty": (cut("", "stop", 0), (), "empty-reply", "the last reply is empty"),
    "token_limit": (cut(GET, "stop"), ("--per-item", "tokens=200"), "token-limit", "ended by the limit of tokens: "),
    "invalid": (cut("Let me think.", "stop"), (), "invalid-action", "the last message is neither GET, POST nor"),
    "rounds": (cut(GET, "stop"), ("--max-rounds", 2), "round-limit", "ended by the limit of rounds"),
}


@pytest.mark.parametrize("name", BENCHMARKS)
@pytest.mark.parametrize("ending", ENDINGS)
def test_an_ending_is_explained_by_its_own_words(
    ending: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    body, more, kind, reason = ENDINGS[ending]
    with ModelServer(lambda _: body) as server:
        model = ("--model", "m", "--base-url", server.url)
        ran = command("run", name, *model, "--limit", 4, "--concurrency", 1, "--quiet", *more)
    assert ran.code == 0, ran.err
    found = explained(tmp_path)
    if name == "fhir-agentbench" and ending == "rounds":
        return  # the published answer to that, which only a judge can grade
    if name == "fhir-agentbench" and ending == "invalid":
        reason = "ended by a message that is not an action"
    assert found[0] == kind
    assert found[1].startswith(reason)


def replies() -> list[Json]:
    return [json.loads(line) for line in need(SHARED / "replies" / "small_model.jsonl").read_text("utf-8").splitlines()]


def test_the_replies_of_a_small_model_are_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each as the only message of an episode, with its finish reason."""
    monkeypatch.chdir(tmp_path)
    for recorded in replies():
        protocol = (
            "--protocol",
            recorded["protocol"],
            *(("--sandbox", "monty") if recorded["protocol"] == "code" else ()),
        )
        body = cut(recorded["reply"], recorded["finish_reason"] or "stop")
        with ModelServer(lambda _, body=body: body) as server:  # type: ignore[misc]  # a lambda with a default
            model = ("--model", "m", "--base-url", server.url)
            ran = command(
                *("run", *model, "--limit", 1, "--max-rounds", 1, "--quiet", "--overwrite", *protocol),
                *("--ids", "task2_1"),
            )
        assert ran.code == 0, ran.err
        kind, reason = explained(tmp_path)
        assert kind != "unfinished", (recorded["n"], reason)
        assert "nothing says how" not in reason
