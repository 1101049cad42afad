"""A provider's failure, a filter and a limit of tokens are never the model's answer: in every benchmark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.command import medagent
from tests.loopback import ModelServer, chat_json
from tests.medagent.benchmarks.test_common import words as words  # a fixture
from tests.medagent.benchmarks.test_disasters import BENCHMARKS, folder, paid, rows, run, say
from tests.medagent.reports.browser import opened

Words = dict[str, list[Any]]
EVERY = pytest.mark.parametrize("name", BENCHMARKS)


@pytest.fixture(autouse=True)
def _one_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medagent.models.retry.FIRST_WAIT_S", 0.0)


def broken(word: str | None, text: str | None = None) -> Any:
    """A model's replies that end so; its judge is in order."""

    def reply(request: dict[str, Any]) -> Any:
        body = chat_json(say(request) if text is None or request["model"] == "j" else text, request)
        if request["model"] != "j":
            body["choices"][0]["finish_reason"] = word
        return body

    return reply


def report() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder() / "report.json").read_text("utf-8"))
    return found


@EVERY
@pytest.mark.parametrize(
    ("word", "text", "status"),
    [
        ("network_error", None, "model_error"),
        ("moon_phase", None, "model_error"),
        (None, "", "model_error"),
        ("SAFETY", None, "refused"),
    ],
)
def test_what_is_no_answer_is_owed_and_named(
    words: Words, name: str, word: str | None, text: str | None, status: str
) -> None:
    with ModelServer(broken(word, text)) as server:
        ran = run(words, name, "chat", server, "--limit", 2, "--concurrency", 1)
        assert ran.code == 2, ran.out + ran.err
        assert {row["status"] for row in rows()} == {status}
        assert all((word or "no finish reason") in row["error"] for row in rows())
        assert paid() > 0
    assert report()["overall"] is None or not report()["overall"].get("n")


@EVERY
def test_replies_that_are_cut_are_counted_listed_and_filtered(words: Words, name: str) -> None:
    with ModelServer(broken("length", "GET http://loc")) as server:
        ran = run(words, name, "chat", server, "--limit", 2)
    calls = sum(call["finish_reason"] == "length" for row in rows() for call in row["spent"]["each"])
    assert calls == paid() - (2 if name == "simpleqa" else 0) > 0
    assert f"Not ended by the model: {calls} replies cut off by a limit of tokens" in " ".join(ran.out.split())
    assert report()["finish_reasons"] == {"length": calls}
    if name == "medagentbench":
        assert {row["status"] for row in rows()} == {"cut"}
    listed = medagent("show", folder(), "--finish-reason", "length")
    assert "2 of 2 (" in listed.out, listed.err
    first = json.loads((folder() / "items.jsonl").read_text("utf-8").partition("\n")[0])
    shown = medagent("show", folder(), first["item"])
    assert "finish reasons: length" in shown.out
    none = medagent("show", folder(), "--finish-reason", "abort")
    assert (none.code, "no item of" in none.err, "the values are length" in none.err) == (1, True, True)


def test_a_tool_call_that_is_cut_ends_the_episode_at_once(words: Words) -> None:
    call = {"id": "a", "type": "function", "function": {"name": "finish", "arguments": '{"answers": [1'}}
    body = chat_json("", {})
    body["choices"][0] |= {"finish_reason": "length", "message": {"role": "assistant", "tool_calls": [call]}}
    with ModelServer(lambda _: body) as server:
        run(words, "medagentbench", "chat", server, "--limit", 2, "--protocol", "tools")
        assert len(server.calls) == 2
    assert [(row["status"], row["malformed"]) for row in rows()] == [("cut", 1)] * 2


@pytest.mark.parametrize(
    ("text", "status"), [("FINISH([1", "cut"), ("FINISH([1])", "completed"), ("GET x", "cut"), ("POST x", "cut")]
)
def test_an_answer_whose_end_is_cut_off_is_none(words: Words, text: str, status: str) -> None:
    with ModelServer(broken("length", text)) as server:
        run(words, "medagentbench", "chat", server, "--limit", 1)
    assert [row["status"] for row in rows()] == [status]


def test_the_report_is_filtered_by_finish_reason(words: Words) -> None:
    first = iter([broken("length", "GET x")])
    with ModelServer(lambda request: next(first, broken("stop"))(request)) as server:
        run(words, "medagentbench", "chat", server, "--limit", 3, "--concurrency", 1)
    (cut,) = [row["task_id"] for row in rows() if "length" in str(row["spent"])]
    assert medagent("report", folder(), "--output", "page.html").code == 0
    with opened() as page:
        page.go(Path("page.html").resolve())
        page.page.locator("[data-filter=finish]").select_option("length")
        assert page.rows() == [cut]
