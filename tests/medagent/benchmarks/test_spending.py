"""What is paid is counted, in every benchmark: calls that were cut off, output that is only in a total, replies without
a count of tokens.
"""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import pytest

from tests.loopback import Call, Fault, ModelServer, chat_json, stall
from tests.medagent.benchmarks.test_common import words as words  # a fixture
from tests.medagent.benchmarks.test_disasters import BENCHMARKS, paid, priced, rows, run, say

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


@EVERY
@pytest.mark.parametrize("option", ["--max-tokens-total", "--per-item tokens", "--max-cost", "--per-item cost"])
def test_limits_that_rest_on_counts_stop_the_run_after_five_replies_without_any(
    words: Words, name: str, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    priced(monkeypatch)
    with ModelServer(with_usage(None)) as server:
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
