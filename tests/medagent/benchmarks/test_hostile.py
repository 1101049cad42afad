"""What a provider sends is data, in every benchmark and over both of OpenAI's APIs: it steers no terminal, leaves no
key in a file, names no folder, has no cost that is not known, and ends no run.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.command import Ran, medagent
from tests.loopback import Call, Fault, ModelServer, chat_json, responses_json, status
from tests.medagent.benchmarks.test_common import words as words  # a fixture

KEY = "sk-a/very+secret=key-0123456789"
MODEL = "evil\x1b]0;owned\x07\x1b[2J\nname"
STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
EVERY = pytest.mark.parametrize(
    ("name", "api"),
    [("medagentbench", "chat"), ("promptcblue", "responses"), ("simpleqa", "chat"), ("imapscore", "responses")],
)


def run(words: dict[str, list[Any]], name: str, api: str, url: str, *more: object) -> Ran:
    """One item of a benchmark, answered (and judged) by the server at `url`."""
    words[name][words[name].index("scripted:model.json")] = MODEL
    if name == "simpleqa":
        words[name][words[name].index("scripted:judge.json")] = MODEL
    return medagent(*words[name], "--base-url", url, "--api", api, "--limit", 1, "--concurrency", 1, *more)


def hostile(request: dict[str, Any]) -> dict[str, Any]:
    """A reply that holds the key and ESC wherever there is a text, and usage that cannot be."""
    text = f"FINISH([1])\x1b[2J{KEY}\u202e"
    if "input" in request:
        reply = responses_json(text) | {"model": f"served\x1b[31m{KEY}", "usage": {"input_tokens": 10**400}}
        return reply | {"status": "incomplete", "incomplete_details": {"reason": f"odd\x1b[2J{KEY}"}}
    reply = chat_json(text, {}) | {"model": f"served\x1b[31m{KEY}", "system_fingerprint": f"\x1b[2J{KEY}"}
    reply["usage"] = {"prompt_tokens": -5, "completion_tokens": "many"}
    reply["choices"][0] |= {"finish_reason": f"odd\x1b[2J{KEY}"}
    return reply


def check(ran: Ran) -> Path:
    """Nothing that was printed or kept steers a terminal or holds the key; gives the run's folder."""
    (folder,) = (path.parent for path in Path("results").rglob("run.json"))
    shown = medagent("show", folder)
    item = json.loads((folder / "episodes.jsonl").read_text().splitlines()[0])["unit"].partition("#")[0]
    details = medagent("show", folder, item)
    for text in (ran.out, ran.err, shown.out, shown.err, details.out, details.err, folder.name):
        assert not STEERING.search(text), text
    for text in (ran.out, ran.err, shown.out, details.out, *(file.read_text() for file in folder.rglob("*.json*"))):
        assert KEY not in text
        assert "very+secret" not in text
    assert not any(STEERING.search(path.name) or "\n" in path.name for path in folder.rglob("*"))
    return folder


@EVERY
def test_a_reply_full_of_steering_and_the_key(
    words: dict[str, list[Any]], monkeypatch: pytest.MonkeyPatch, name: str, api: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with ModelServer(hostile) as server:
        ran = run(words, name, api, server.url)
        assert server.calls[0].headers["authorization"] == f"Bearer {KEY}"
    assert ran.code in (0, 2), ran.err
    folder = check(ran)
    report = json.loads((folder / "report.json").read_text())
    assert report["spent"]["cost"] is None  # unknown, never 0
    assert re.search(r"Cost unknown, \S+ tokens", ran.out)


@EVERY
def test_errors_inside_a_200_and_waits_of_a_day_leave_the_item_owed(
    words: dict[str, list[Any]], monkeypatch: pytest.MonkeyPatch, name: str, api: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    error = json.dumps({"error": {"message": f"bad key {KEY}\x1b[2J", "code": 502}}).encode()

    def fault(call: Call) -> Fault:
        return Fault(body=error) if call.number == 0 else status(503, retry_after="9" * 400, message=f"at {KEY}\x1b[2J")

    with ModelServer(faults=fault) as server:
        ran = run(words, name, api, f"{server.url}?key={KEY}")
        assert [call.path.partition("?")[0] for call in server.calls[:2]] == [f"/v1/{path(api)}"] * 2
    assert ran.code == 1, ran.err  # a wait that no run can keep stops it, with one line
    folder = check(ran)
    assert "***␛[2J: the endpoint asks to come back in a day or later" in ran.err
    assert [json.loads(line)["status"] for line in (folder / "episodes.jsonl").read_text().splitlines()] == [
        "cancelled"
    ]


def path(api: str) -> str:
    return "responses" if api == "responses" else "chat/completions"


@pytest.mark.parametrize(
    "words_that_hold_a_secret",
    [
        ["run", "--fhir", "http://h/fhir", "--agent", "nop", "--fhir-header", f"Authorization Bearer {KEY}"],
        ["doctor", "--fhir", "http://h/fhir", "--fhir-header", KEY],
        ["doctor", "--fhir", f"htp://user:{KEY}@h/fhir"],
        ["run", "--model", "m", "--base-url", f"htp://user:{KEY}@h/v1"],
        ["run", "--model", "m", "--base-url", f"htp://h/v1?api_key={KEY}"],
        ["run", "--model", "m", "--base-url", f"http://user:{KEY}@/v1"],
        ["run", "--model", "m", "--api-key-env", KEY],
        ["run", "--agent", "nop", "--fhir", f"http://user:{KEY}@127.0.0.1:9/fhir"],
        ["run", "--agent", "nop", "--fhir", f"127.0.0.1:9/fhir?token={KEY}"],
    ],
)
def test_what_is_mistyped_is_not_repeated_with_its_secret(words_that_hold_a_secret: list[str]) -> None:
    ran = medagent(*words_that_hold_a_secret)
    assert ran.code == 1
    assert ran.err.count("\n") == 1
    assert "secret" not in ran.err + ran.out
