"""`--batch`: a run through a provider's batch API on the loopback interface, stopped and found again."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from medagent.benchmarks.promptcblue.benchmark import Promptcblue
from medagent.benchmarks.promptcblue.settings import MINI, PromptcblueSettings
from medagent.core.errors import StopRunError, UserError
from medagent.models.base import Completion, Message
from medagent.models.batches import _apis as apis
from medagent.models.batches import model as batch
from medagent.models.settings import ModelSettings
from tests import runs
from tests.batches import BatchServer
from tests.command import medagent

LINES = [json.loads(line) for line in (MINI / "test.jsonl").read_text("utf-8").splitlines()]
ANSWERS = {line["input"]: line["target"] for line in LINES}
FIRST = tuple(f"{line['task_dataset']}#{number}" for number, line in enumerate(LINES[:8], 1))


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "QUIET_S", 0.05)
    monkeypatch.setattr(batch, "POLL_S", 0.01)
    monkeypatch.setattr(batch, "SETTLE_S", 0.01)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")


def asked(body: dict[str, Any]) -> str:
    content = body["messages"][-1]["content"]
    return str(content if isinstance(content, str) else content[0]["text"])


def run(server: Any, folder: Path, **changes: Any) -> int:
    options = {
        "model": "gpt-4o-mini",
        "base_url": [server.url],
        "results_dir": folder,
        "batch": True,
        "concurrency": 64,
    }
    retries, longest = changes.pop("retries", 0), changes.pop("reply_bytes", 16_000_000)
    options |= changes
    return runs.run(Promptcblue(), runs.impatient(PromptcblueSettings, retries, longest)(**options))


@pytest.mark.parametrize("api", ["chat", "anthropic"])
def test_a_run_is_one_batch_at_half_the_price(tmp_path: Path, api: str) -> None:
    with BatchServer(lambda body: ANSWERS[asked(body)], polls=3) as server:
        assert run(server, tmp_path, api=api, limit=8) == 0
        assert [len(requests) for requests in server.batches.values()] == [8]
        assert server.looks == {"batch1": 3}
    report = json.loads((tmp_path / "promptcblue_r1_gpt-4o-mini" / "report.json").read_text("utf-8"))
    assert report["overall"]["value"] == pytest.approx(1)
    assert report["spent"]["cost"] == pytest.approx(8 * (10 * 0.15 + 2 * 0.6) / 1e6 / 2)


def test_a_stopped_run_finds_its_batch_and_submits_only_what_was_lost(tmp_path: Path) -> None:
    lost = {LINES[0]["input"], LINES[5]["input"]}
    with BatchServer(lambda body: None if asked(body) in lost else ANSWERS[asked(body)]) as server:
        assert run(server, tmp_path, ids=FIRST) == 2
        journal = tmp_path / "promptcblue_r1_gpt-4o-mini" / "episodes.jsonl"
        rows = [json.loads(line) for line in journal.read_text("utf-8").splitlines()]
        assert sorted(row["status"] for row in rows) == ["completed"] * 6 + ["model_error"] * 2
        lost.clear()
        # As if the process had died before the answers came: the batch is asked for again, not submitted.
        journal.unlink()
        assert run(server, tmp_path, ids=FIRST) == 0
        assert [len(requests) for requests in server.batches.values()] == [8, 2]


def rows(folder: Path) -> list[dict[str, Any]]:
    text = (folder / "promptcblue_r1_gpt-4o-mini" / "episodes.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


APIS = pytest.mark.parametrize("api", ["chat", "anthropic"])


@APIS
@pytest.mark.parametrize("fate", ["lost", "late", "error", "garbled", "never"])
def test_a_batch_whose_creation_was_not_answered_is_looked_for_and_not_created_again(
    tmp_path: Path, api: str, fate: str
) -> None:
    with BatchServer(lambda body: ANSWERS[asked(body)], creates=[fate]) as server:
        assert run(server, tmp_path, api=api, ids=FIRST, retries=3) == 0
        assert [len(requests) for requests in server.batches.values()] == [8]
        assert server.created == (2 if fate == "never" else 1)


@APIS
@pytest.mark.parametrize("fate", ["lost", "late", "never"])
def test_a_run_that_gave_up_finds_its_batch_again(tmp_path: Path, api: str, fate: str) -> None:
    with BatchServer(lambda body: ANSWERS[asked(body)], creates=[fate]) as server:
        assert run(server, tmp_path, api=api, ids=FIRST) == 2
        assert run(server, tmp_path, api=api, ids=FIRST) == 0
        assert [len(requests) for requests in server.batches.values()] == [8]


def test_a_list_of_many_batches_is_read_to_its_end(tmp_path: Path) -> None:
    with BatchServer(lambda body: ANSWERS[asked(body)], creates=["lost"]) as server:
        assert run(server, tmp_path, ids=FIRST) == 2
        server.add(5)
        assert run(server, tmp_path, ids=FIRST) == 0
        assert sorted(len(requests) for requests in server.batches.values()) == [0] * 5 + [8]


@APIS
def test_each_line_of_results_stands_alone_and_what_failed_goes_into_a_new_batch(tmp_path: Path, api: str) -> None:
    lines = iter(range(100))

    def damage(line: bytes) -> bytes:
        number = next(lines)
        if number > 4:
            return line
        reply = json.loads(line)
        place = reply.get("response") or reply["result"]
        body = "body" if api == "chat" else "message"
        odd = {0: b"no JSON\n", 1: b"[]\n", 2: line[: len(line) // 2] + b"\n", 3: b"x" * 3_000_000 + b"\n"}
        place[body] = {"error": {"message": "upstream failed"}}
        return odd.get(number, json.dumps(reply).encode() + b"\n")

    with BatchServer(lambda body: ANSWERS[asked(body)], line=damage) as server:
        assert run(server, tmp_path, api=api, ids=FIRST, reply_bytes=1_000_000) == 2
        first = [row for row in rows(tmp_path) if row["status"] == "model_error"]
        assert len(first) == 5
        assert [row["error"] for row in first if "upstream failed" in row["error"]]
        assert run(server, tmp_path, api=api, ids=FIRST) == 0
        assert [len(requests) for requests in server.batches.values()] == [8, 5]


def test_results_of_any_size_are_downloaded_once(tmp_path: Path) -> None:
    def padded(line: bytes) -> bytes:
        return json.dumps({**json.loads(line), "padding": "x" * 3_000_000}).encode() + b"\n"

    with BatchServer(lambda body: ANSWERS[asked(body)], line=padded) as server:
        assert run(server, tmp_path, ids=FIRST) == 0
        assert server.downloads == 1
    assert {path.name for path in (tmp_path / "promptcblue_r1_gpt-4o-mini").iterdir()} >= {"batches.jsonl"}


def test_results_have_a_bound_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apis, "MOST_RESULT_BYTES", 1_000)
    with BatchServer(lambda body: ANSWERS[asked(body)]) as server:
        assert run(server, tmp_path, ids=FIRST) == 2
        assert server.downloads == 1
        assert all("longer than 1,000 bytes" in row["error"] for row in rows(tmp_path))
        monkeypatch.undo()
        _quick.__wrapped__(monkeypatch)
        assert run(server, tmp_path, ids=FIRST) == 0
        assert len(server.batches) == 1


def test_a_batch_that_failed_as_a_whole_is_named_and_submitted_again(tmp_path: Path) -> None:
    with BatchServer(lambda body: ANSWERS[asked(body)]) as server:
        server.failed.add("batch1")
        assert run(server, tmp_path, ids=FIRST) == 2
        assert all("batch batch1: it failed" in row["error"] and "bad input" in row["error"] for row in rows(tmp_path))
        assert run(server, tmp_path, ids=FIRST) == 0
        assert [len(requests) for requests in server.batches.values()] == [8, 8]


@APIS
def test_a_batch_that_no_longer_exists_is_named_with_its_cost(
    tmp_path: Path, api: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with BatchServer(lambda body: ANSWERS[asked(body)]) as server:
        server.gone.add("batch1")
        assert run(server, tmp_path, api=api, ids=FIRST) == 2
        said = capsys.readouterr()
        assert "batch batch1 of 8 requests no longer exists at the provider" in said.out + said.err
        assert all(row["spent"]["estimated"] == 1 and row["spent"]["cost"] > 0 for row in rows(tmp_path))
        assert run(server, tmp_path, api=api, ids=FIRST) == 0
        assert [len(requests) for requests in server.batches.values()] == [8, 8]


def test_a_torn_line_of_the_batches_is_cut_away_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    path = tmp_path / "promptcblue_r1_gpt-4o-mini" / "batches.jsonl"
    with BatchServer(lambda body: ANSWERS[asked(body)]) as server:
        assert run(server, tmp_path, ids=FIRST) == 0
        whole = path.read_bytes()
        (path.parent / "episodes.jsonl").unlink()
        path.write_bytes(whole[:-10])  # the id of the batch is lost: the provider's list has it
        assert run(server, tmp_path, ids=FIRST) == 0
        assert len(server.batches) == 1
        (path.parent / "episodes.jsonl").unlink()
        path.write_bytes(b"[]\n" + whole)
        with pytest.raises(UserError, match=r"batches\.jsonl:1: is damaged"):
            run(server, tmp_path, ids=FIRST)


def test_a_tool_call_in_a_batch_shows_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-a-secret-of-the-batch"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    call = {"id": key, "function": {"name": "find", "arguments": json.dumps({"key": key})}}

    def with_call(line: bytes) -> bytes:
        reply = json.loads(line)
        reply["response"]["body"]["choices"][0]["message"]["tool_calls"] = [call]
        return json.dumps(reply).encode() + b"\n"

    async def ask(url: str) -> Completion:
        model = batch.BatchModel(ModelSettings(name="m", base_urls=[url]), tmp_path / "batches.jsonl")
        try:
            return await model.complete([Message("user", "x")])
        finally:
            await model.aclose()

    with BatchServer(lambda body: "", line=with_call) as server:
        (found,) = asyncio.run(ask(server.url)).tool_calls
    assert (found.id, found.arguments) == ("***", '{"key": "***"}')


def test_an_endpoint_without_batches_is_one_line(tmp_path: Path) -> None:
    with BatchServer(lambda body: "") as server:
        elsewhere = [server.url.replace("/v1", "/v2")]
        with pytest.raises(StopRunError, match=r"answered 404: \{\} \(it does not offer a batch API; remove --batch\)"):
            run(server, tmp_path, base_url=elsewhere)


def test_what_has_no_batches_is_refused(tmp_path: Path) -> None:
    with BatchServer(lambda body: "") as server:
        for changes, words in (
            ({"workers": 2}, "--batch and --workers exclude each other"),
            ({"api": "responses"}, "works only with --api chat or anthropic"),
            ({"model": None, "agent": "gold"}, "works only with a model"),
            ({"model": "scripted:x.json"}, "does not offer a batch API"),
        ):
            with pytest.raises(UserError, match=words):
                run(server, tmp_path, **changes)
    refused = medagent("run", "imapscore", "--model", "m", "--batch")
    assert (refused.code, "no such option" in refused.err.lower()) == (1, True)


KILLED = """
import sys
from pathlib import Path
from medagent.models.batches import model
model.QUIET_S, model.POLL_S, model.SETTLE_S = 0.05, 0.01, 0.2
sys.argv = ["medagent", "run", "promptcblue", "--model", "gpt-4o-mini", "--batch", "--limit", "8", *sys.argv[1:]]
from medagent.cli.app import main
main()
"""


@pytest.mark.parametrize("kill", [pytest.param(n, marks=[pytest.mark.long] if n else []) for n in range(30)])
def test_a_kill_at_any_request_pays_no_request_twice(tmp_path: Path, kill: int) -> None:
    """The process is killed while the server handles one of its requests: the first case is that which creates the
    batch; the others are all combinations of both APIs, before or after the answer, and one to three kills in a run,
    each at a random request.
    """
    chance = random.Random(kill)
    api = "anthropic" if kill % 2 else "chat"
    left = [(("POST", "batches"), 0)] if kill == 0 else [((), chance.randrange(8)) for _ in range(1 + kill % 3)]
    processes: list[subprocess.Popen[bytes]] = []
    seen = 0

    def kill_at(method: str, path: str, answered: bool) -> None:
        nonlocal seen
        if not left or (left[0][0] and (method, path.rsplit("/", 1)[-1]) != left[0][0]):
            return
        if kill and answered != bool(kill % 5):
            return
        if seen == left[0][1]:
            processes[-1].kill()
            left.pop(0)
            seen = 0
        else:
            seen += 1

    def start(server: BatchServer) -> int:
        words = ["--api", api, "--base-url", server.url, "--results-dir", str(tmp_path), "--quiet"]
        processes.append(subprocess.Popen([sys.executable, "-c", KILLED, *words], stderr=subprocess.DEVNULL))
        return processes[-1].wait()

    with BatchServer(lambda body: ANSWERS[asked(body)], polls=3, watch=kill_at) as server:
        codes = [start(server)]
        while codes[-1] == -signal.SIGKILL:
            codes.append(start(server))
        assert codes[-1] == 0
        assert [len(requests) for requests in server.batches.values()] == [8]
    if kill == 0:
        assert codes[0] == -signal.SIGKILL
