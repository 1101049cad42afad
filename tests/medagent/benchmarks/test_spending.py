"""What is paid is counted, in every benchmark: calls that were cut off, output that is only in a total, replies without
a count of tokens.
"""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import pytest

from tests.loopback import Call, Fault, ModelServer, chat_json, stall, status
from tests.medagent.benchmarks.test_common import words as words  # a fixture
from tests.medagent.benchmarks.test_disasters import BENCHMARKS, paid, priced, rows, run, say
from tests.serving import serving

Words = dict[str, list[Any]]
EVERY = pytest.mark.parametrize("name", BENCHMARKS)


def with_usage(usage: Any) -> Any:
    """Replies with these counts."""
    return lambda request: chat_json(say(request), request) | {"usage": usage}


@EVERY
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_calls_that_a_signal_cuts_off_are_counted_as_estimates(
    words: Words, name: str, sent: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    priced(monkeypatch)
    fine = 24 if name == "imapscore" else 4

    def fault(call: Call) -> Fault | None:
        if call.number == fine + 1:
            os.kill(os.getpid(), sent)
        return stall() if call.number >= fine else None

    before = signal.signal(sent, signal.default_int_handler if sent == signal.SIGINT else signal.SIG_DFL)
    try:
        with ModelServer(say, faults=fault) as server:
            run(words, name, "chat", server, "--limit", 8, "--concurrency", 2)
            answered, calls = fine, len(server.calls)
    finally:
        signal.signal(sent, before)
    assert paid() == calls > answered
    cut_off = [call for row in rows() for call in row["spent"]["each"] if call.get("estimated")]
    assert len(cut_off) == calls - answered or name == "simpleqa"  # whose judge is cut off as well
    assert all(call["prompt"] > 0 and call["cost"] > 0 for call in cut_off)
    with ModelServer(say) as server:
        ran = run(words, name, "chat", server, "--limit", 8, "--concurrency", 2, "--full")
    assert ran.code == 0, ran.out + ran.err
    assert f"({calls - answered} cut off, their cost is an estimate)" in ran.out


@EVERY
def test_a_unit_over_its_time_has_paid_for_the_call_that_was_cut_off(words: Words, name: str) -> None:
    with ModelServer(say, faults=lambda call: stall() if call.body["model"] == "m" else None) as server:
        run(words, name, "chat", server, "--limit", 1, "--per-item", "time=1")
        assert paid() == len(server.calls) > 0
    (row,) = rows()
    assert (row["status"], row["spent"]["estimated"]) == ("time_limit", row["spent"]["calls"])


@pytest.mark.parametrize(("code", "concurrency"), [(429, 4), (503, 4), (429, 1)])
def test_a_unit_over_its_time_is_owed_if_the_endpoint_only_fails(words: Words, code: int, concurrency: int) -> None:
    with ModelServer(say, faults=lambda _: status(code, message="not now")) as server:
        options = ("--limit", 4, "--per-item", "time=1", "--concurrency", concurrency)
        ran = run(words, "medagentbench", "chat", server, *options)
    assert ran.code == 2, ran.out + ran.err
    assert [row["status"] for row in rows()] == ["model_error"] * 4
    assert all("not now" in row["error"] or "answered 429" in row["error"] for row in rows())


def test_a_unit_over_its_time_is_owed_if_the_fhir_server_does_not_answer(words: Words) -> None:
    async def silent(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        about = scope["path"].endswith("/metadata")
        body = {"resourceType": "CapabilityStatement", "fhirVersion": "4.0.1"} if about else {}
        await send({"type": "http.response.body", "body": json.dumps(body).encode(), "more_body": not about})
        while not about and (await receive())["type"] != "http.disconnect":
            pass

    with ModelServer("GET http://localhost:8080/fhir/Patient?_id=1") as server, serving(silent) as url:
        options = ("--limit", 2, "--per-item", "time=1", "--fhir", f"{url}/fhir")
        ran = run(words, "medagentbench", "chat", server, *options)
    assert ran.code == 2, ran.out + ran.err
    assert [row["status"] for row in rows()] == ["fhir_error"] * 2
    assert "Patient?_id=1&_format=json: no answer (not done in 1 s; --per-item time)" in rows()[0]["error"]


@EVERY
@pytest.mark.parametrize("option", ["--max-tokens-total", "--per-item tokens", "--max-cost", "--per-item cost"])
@pytest.mark.parametrize("usage", [None, {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}])
def test_limits_that_rest_on_counts_stop_the_run_after_five_replies_without_any(
    words: Words, name: str, usage: Any, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    priced(monkeypatch)
    with ModelServer(with_usage(usage)) as server:
        ran = run(words, name, "chat", server, "--limit", 8, "--concurrency", 1, *f"{option}=10000000".split())
    assert (ran.code, f"{option} cannot be kept" in ran.err) == (2, True), ran.err
    assert sum(row["status"] == "completed" for row in rows()) <= 5


@EVERY
def test_output_that_is_only_in_the_total_counts(words: Words, name: str) -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 5_105}
    with ModelServer(with_usage(usage)) as server:
        words_of_run = ("--limit", 8, "--concurrency", 1, "--max-tokens-total", 30_000, "--full")
        ran = run(words, name, "chat", server, *words_of_run)
        calls = len(server.calls)
    assert (ran.code, "--max-tokens-total 30000 is" in ran.err) == (2, True), ran.err
    assert calls * 5_105 <= 30_000 + (9 * 5_105 if name == "imapscore" else 0)
    assert f"{calls * 100:,} + {calls * 5_005:,} tokens" in ran.out
    assert all(call["completion"] == 5 for row in rows() for call in row["spent"]["each"])


@EVERY
def test_kept_replies_are_those_of_the_same_trial(words: Words, name: str) -> None:
    cache = () if name == "imapscore" else ("--cache", "kept")  # it always keeps replies, for each sample of each trial
    with ModelServer(say) as server:
        for label in ("a", "b"):
            ran = run(words, name, "chat", server, "--trials", 2, "--limit", 2, "--round", label, *cache)
            assert ran.code == 0, ran.err
        bodies = [json.dumps(call.body) for call in server.calls if call.body["model"] == "m"]
        seeds = {call.body.get("seed") for call in server.calls if call.body["model"] == "m"}
    assert len(bodies) == len(set(bodies)) >= 2
    assert len(seeds) > 1
