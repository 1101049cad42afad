"""What may befall a run, in all four benchmarks and over both of OpenAI's APIs: limits, signals, refusals, replies that
are none, a folder that goes, a disk that fills. Nothing finished is lost or paid again, and every paid call is in the
sum. `make test` has each disaster once, at benchmarks and APIs in turn; `make test-long` has all of them.
"""

from __future__ import annotations

import json
import os
import random
import re
import resource
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.command import Ran, medagent
from tests.loopback import Call, Fault, ModelServer, chat_json, responses_json, stall, status
from tests.medagent.benchmarks.imapscore.oracle import ITEMS, Oracle
from tests.medagent.benchmarks.test_common import words as words  # a fixture

BENCHMARKS = ("medagentbench", "promptcblue", "simpleqa", "imapscore")
APIS = ("chat", "responses")
Words = dict[str, list[Any]]


def turn(number: int) -> Any:
    """All benchmarks over both APIs, the one at this place in `make test`, the others in `make test-long`."""
    cases = [(name, api) for api in APIS for name in BENCHMARKS]
    here = cases[number % len(cases)]
    return pytest.mark.parametrize(
        ("name", "api"), [case if case == here else pytest.param(*case, marks=pytest.mark.long) for case in cases]
    )


def say(request: dict[str, Any]) -> str:
    """What a good model says."""
    messages = request.get("messages") or request["input"]
    if request["model"] == "j":
        return '{"evaluation": "CORRECT"}'
    if any(item.question in str(messages[-1]["content"]) for item in ITEMS):
        return Oracle()({**request, "messages": messages, "seed": request.get("seed") or 0})
    return "FINISH([1])"


def run(words: Words, name: str, api: str, server: ModelServer, *more: object) -> Ran:
    """A benchmark's run over the server, which is SimpleQA's judge too."""
    command = [{"scripted:model.json": "m", "scripted:judge.json": "j"}.get(str(word), word) for word in words[name]]
    return medagent(*command, "--base-url", server.url, "--api", api, *more)


def folder() -> Path:
    """The run's folder."""
    (found,) = {path.parent for path in Path("results").rglob("run.json")}
    return found


def rows() -> list[dict[str, Any]]:
    """The journal's rows."""
    return [json.loads(line) for line in (folder() / "episodes.jsonl").read_text().splitlines()]


def paid() -> int:
    """Calls in the sums of the journals."""
    journals = [folder() / name for name in ("episodes.jsonl", "judgements.jsonl")]
    lines = [line for path in journals if path.exists() for line in path.read_text().splitlines()]
    return sum(json.loads(line)["spent"]["calls"] for line in lines)


def priced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the model a price."""
    line = "input = 1000.0\noutput = 2000.0\n"
    Path("prices.toml").write_text(f'date = "2025-01-01"\n[models.m]\n{line}[models.j]\n{line}')
    monkeypatch.setenv("MEDAGENT_PRICES", "prices.toml")


def results() -> dict[str, bytes]:
    """What a run's official files say, without what depends on the clock and on what each try paid."""
    found = {}
    for path in folder().iterdir():
        if path.name in ("results.json", "imaps.jsonl", "test_predictions.json", "scores.json"):
            text = path.read_text()
            found[path.name] = "\n".join(line for line in text.splitlines() if '"timestamp"' not in line).encode()
    assert found
    return found


def undisturbed(words: Words, name: str, api: str, *more: object) -> dict[str, bytes]:
    """The results of the same run where nothing goes wrong; its folder is removed."""
    with ModelServer(say) as server:
        ran = run(words, name, api, server, *more)
    assert ran.code == 0, ran.err
    found = results()
    shutil.rmtree("results")
    return found


@pytest.mark.parametrize(
    ("sent", "code"), [(signal.SIGTERM, 143), pytest.param(signal.SIGHUP, 129, marks=pytest.mark.long)]
)
@turn(1)
def test_a_signal_keeps_what_is_finished(words: Words, name: str, api: str, sent: signal.Signals, code: int) -> None:
    fine = 24 if name == "imapscore" else 3

    def fault(call: Call) -> Fault | None:
        if call.number == fine + 1:
            os.kill(os.getpid(), sent)
        return stall() if call.number >= fine else None

    before = signal.signal(sent, signal.SIG_DFL)  # whoever runs the tests may ignore it
    try:
        with ModelServer(say, faults=fault) as server:
            ran = run(words, name, api, server, "--limit", 8, "--concurrency", 2)
    finally:
        signal.signal(sent, before)
    assert ran.code == code, ran.err
    assert "Finished units are saved. Continue: medagent run" in ran.err
    assert "Traceback" not in ran.err
    left = Counter(row["status"] for row in rows())
    assert 1 <= left["cancelled"] <= 2  # one, if both stalled calls are of one item and the other item was at its end
    assert left["completed"] >= 1
    sent_before = paid()
    assert sent_before == len(server.calls) > fine  # those that were cut off included
    with ModelServer(say) as server:
        assert run(words, name, api, server, "--limit", 8).code == 0
        assert paid() == sent_before + len(server.calls)
    again = Counter(row["unit"] for row in rows() if row["status"] != "cancelled")
    assert set(again.values()) == {1}


@turn(2)
def test_a_budget_stops_a_run_and_a_higher_one_continues_it(
    words: Words, name: str, api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    priced(monkeypatch)
    with ModelServer(say) as server:
        ran = run(words, name, api, server, "--limit", 4, "--concurrency", 1, "--max-cost", 0.001)
        assert ran.code == 2, ran.err
        assert "--max-cost 0.001 is reached ($" in ran.err
        assert "3 of 4 " in ran.err
        assert "Raise --max-cost to continue: medagent run" in ran.err
        command = ran.err.partition("Raise --max-cost to continue: ")[2].split()
        assert float(command[command.index("--max-cost") + 1]) > 0.001
        assert len(rows()) == 1
        assert paid() == len(server.calls)
        assert run(words, name, api, server, "--limit", 4, "--max-cost", 1e6).code == 0
        assert paid() == len(server.calls)


@turn(3)
def test_what_ends_above_a_budget_says_so_with_exit_code_2(
    words: Words, name: str, api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    priced(monkeypatch)
    with ModelServer(say) as server:
        ran = run(words, name, api, server, "--limit", 1, "--max-cost", 0.001)
        assert ran.code == 2
        ended = "reached" if name == "simpleqa" else "exceeded"  # its judge is not asked any more
        assert f"--max-cost 0.001 is {ended} ($" in ran.err
        again = run(words, name, api, server, "--limit", 1, "--max-cost", 1e6)
        assert (again.code, paid()) == (0, len(server.calls))
        shutil.rmtree("results")
        tokens = run(words, name, api, server, "--limit", 1, "--max-tokens-total", 1)
    assert tokens.code == 2
    assert f"--max-tokens-total 1 is {ended} (" in tokens.err


@turn(4)
def test_replies_without_usage_make_a_budget_void_after_five(
    words: Words, name: str, api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    priced(monkeypatch)

    def silent(request: dict[str, Any]) -> dict[str, Any]:
        made = responses_json(say(request)) if "input" in request else chat_json(say(request), request)
        return {**made, "usage": None}

    with ModelServer(silent) as server:
        ran = run(words, name, api, server, "--limit", 12, "--max-cost", 100)
        assert ran.code == 2, ran.err
        assert len(rows()) == (4 if name == "imapscore" else 5)  # the first four begin together
        assert paid() == len(server.calls)
    assert re.search(r"--max-cost cannot be kept: the cost of \d+ calls is unknown", ran.err)
    _, _, command = ran.err.partition("Continue without --max-cost: ")
    assert command.startswith("medagent run")
    assert "--max-cost" not in command


@turn(5)
def test_a_share_of_failures_stops_a_run(words: Words, name: str, api: str) -> None:
    with ModelServer(say, faults=lambda call: status(400, message="no") if call.number % 3 == 0 else None) as server:
        ran = run(words, name, api, server, "--limit", 12, "--concurrency", 1, "--fail-after", 0.2)
    assert ran.code == 2, ran.err
    assert "--fail-after 0.2 is reached (" in ran.err
    assert "model_error" in ran.err
    assert 10 <= len(rows()) < 12


@turn(2)
def test_an_endpoint_that_went_away_stops_a_run(words: Words, name: str, api: str) -> None:
    def away(call: Call) -> Fault | None:
        return status(503, retry_after=0, message="down") if call.number >= 3 else None

    with ModelServer(say, faults=away) as server:
        ran = run(words, name, api, server, "--concurrency", 1, "--outage-time", 0, "--outage-attempts", 5)
        assert len(server.calls) == 3 + 5
    assert ran.code == 1, ran.err
    assert re.search(r"down \(no attempt has succeeded for \d s; 5 attempts failed\)", ran.err.splitlines()[-1])
    assert paid() == 3


LIMITS = {"tokens": (1, "token_limit"), "cost": (0.001, "cost_limit"), "time": (0.2, "time_limit")}


@turn(6)
@pytest.mark.parametrize("limit", ["cost", *(pytest.param(n, marks=pytest.mark.long) for n in LIMITS if n != "cost")])
def test_an_item_that_takes_too_much_ends_by_a_status_of_its_own(
    words: Words, name: str, api: str, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    priced(monkeypatch)

    def faults(call: Call) -> Fault | None:
        return stall() if limit == "time" else None

    with ModelServer(say, faults=faults) as server:
        ran = run(words, name, api, server, "--limit", 1, "--per-item", f"{limit}={LIMITS[limit][0]}")
        calls = len(server.calls)
    (row,) = rows()
    assert row["status"] == LIMITS[limit][1]
    assert "Traceback" not in ran.err + ran.out
    assert row["status"].replace("_", " ") in ran.out.replace("_", " ")  # the status, or the kind of failure
    assert paid() == calls  # a call that the limit cuts off has begun, and is counted


@turn(7)
def test_a_key_that_is_refused_in_mid_run_loses_no_paid_call(words: Words, name: str, api: str) -> None:
    fine = 20 if name == "imapscore" else 3
    refused = status(401, message="Incorrect API key")
    with ModelServer(say, faults=lambda call: refused if call.number >= fine else None) as server:
        ran = run(words, name, api, server, "--limit", 8, "--concurrency", 2)
    assert ran.code == 1
    assert "Incorrect API key" in ran.err.splitlines()[-1]
    counted = paid()
    assert counted in (fine, fine + 1)  # the other call under way is counted if the end of the run cut it off
    with ModelServer(say) as server:
        assert run(words, name, api, server, "--limit", 8).code == 0
        assert paid() == counted + len(server.calls)


@turn(8)
def test_a_filtered_reply_is_owed_twice_and_final_the_third_time(words: Words, name: str, api: str) -> None:
    def withheld(request: dict[str, Any]) -> dict[str, Any]:
        if "input" in request:
            return responses_json("") | {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}
        made = chat_json("", request)
        made["choices"][0]["finish_reason"] = "content_filter"
        return made

    with ModelServer(withheld) as server:
        codes = [run(words, name, api, server, "--limit", 1).code for _ in range(4)]
        calls = len(server.calls)
    assert codes[:2] == [2, 2]
    assert [row["status"] for row in rows()] == ["refused"] * 3
    assert paid() == calls


@turn(9)
@pytest.mark.parametrize("finish", ["length", "stop"])
def test_a_reply_that_was_cut_or_is_empty_is_counted(words: Words, name: str, api: str, finish: str) -> None:
    text = "" if finish == "stop" else "I was about to"

    def reply(request: dict[str, Any]) -> dict[str, Any]:
        if "input" in request:
            cut = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
            return responses_json(text) | (cut if finish == "length" else {})
        made = chat_json(text, request)
        made["choices"][0]["finish_reason"] = finish
        return made

    with ModelServer(reply) as server:
        ran = run(words, name, api, server, "--limit", 1, "--max-tokens", 64)
        calls = len(server.calls)
    assert "Traceback" not in ran.err
    assert paid() == calls
    if name == "imapscore":  # each sample is asked again; where none can be read, that is the item's result
        assert rows()[-1]["recording"]["failure"] == "extraction_failed"
        return
    assert rows()[-1]["status"] == ("empty" if finish == "stop" else "cut")
    assert ("cut off by a limit of tokens" in " ".join(ran.out.split())) is (finish == "length")


@turn(10)
def test_a_reply_without_end_fails_its_call_alone(words: Words, name: str, api: str) -> None:
    with ModelServer(say, faults=[Fault(body=b" " * 16_100_000)]) as server:
        ran = run(words, name, api, server, "--limit", 2, "--concurrency", 1)
        assert ran.code == 2, ran.err
        assert Counter(row["status"] for row in rows()) == {"model_error": 1, "completed": 1}
        assert "16,000,000 bytes" in ran.out + ran.err
        assert run(words, name, api, server, "--limit", 2).code == 0


@turn(11)
def test_a_folder_that_vanishes_stops_the_run_at_the_next_row(words: Words, name: str, api: str) -> None:
    gone = 26 if name == "imapscore" else 3

    def fault(call: Call) -> None:
        if call.number == gone:
            shutil.rmtree("results")

    with ModelServer(say, faults=fault) as server:
        ran = run(words, name, api, server, "--limit", 12, "--concurrency", 1)
        assert ran.code == 1
        assert ran.err.count("medagent: ") == 1
        assert "episodes.jsonl: was removed or replaced during the run, so the run stops" in ran.err
        assert len(server.calls) <= gone + (12 if name == "imapscore" else 2)
    assert not list(Path().rglob("episodes.jsonl"))


@contextmanager
def little_disk(size: int) -> Iterator[None]:
    """No file can grow beyond so many bytes: what a full disk does to a run, without being root."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


@pytest.mark.parametrize("fillings", [1, pytest.param(10, marks=pytest.mark.long)])
@turn(12)
def test_a_disk_that_fills_costs_what_was_under_way(words: Words, name: str, api: str, fillings: int) -> None:
    more = ("--limit", 3 * fillings + 6, "--concurrency", 2)
    expected = undisturbed(words, name, api, *more)
    rng, kept = random.Random(name), set[str]()
    # The first limit, and about the bytes of a row. SQLite needs 32 kB, and a journal's line contains its 10 samples.
    size, row = {"medagentbench": (40_000, 20_000), "imapscore": (4_000, 3_000)}.get(name, (1500, 1000))
    for _ in range(fillings):
        size += rng.randint(row // 10, row)
        with ModelServer(say) as server, little_disk(size):
            ran = run(words, name, api, server, *more)
            calls = len(server.calls)
        if name == "imapscore" and kept and ran.code == 0:
            break  # the disk was large enough
        assert ran.code == 1, ran.err + ran.out
        assert ran.err.count("medagent: ") == 1
        assert "cannot be written: File too large" in ran.err.splitlines()[-1]
        done = {row["unit"] for row in rows() if row["status"] == "completed"} if Path("results").exists() else set()
        assert kept <= done
        if name != "imapscore":
            assert calls <= len(done - kept) + 2  # what was under way, and nothing that is finished
        kept = done
    with ModelServer(say) as server:
        before = paid()
        assert run(words, name, api, server, *more).code == 0
        assert paid() == before + len(server.calls)
    assert results() == expected
