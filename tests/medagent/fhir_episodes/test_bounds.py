"""An agent that asks for more than there may be: it is told so in words, goes on, and holds nobody up.

The server is the embedded one, or one over HTTP; the model asks by text and by tools, over real sockets.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from threading import Event
from typing import Any

import pytest

import medagent
from medagent.fhir_data.embedded import EmbeddedEhr, imported_file
from tests.loopback import ModelServer
from tests.medagent.benchmarks.medagentbench.runs import episodes, run
from tests.medagent.fhir_data.people import ward
from tests.serving import serving

BASE = "http://localhost:8080/fhir"
BIG = {"resourceType": "Observation", "status": "final", "code": {"text": "x" * 1_500_000}}


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 MB of observations."""
    path = tmp_path_factory.mktemp("ehr") / "big.ndjson"
    path.write_text("\n".join([*ward(1, 1), *(json.dumps({**BIG, "id": f"big{n}"}) for n in range(16))]))
    return path


def greedy(protocol: str, api: str) -> Any:
    """A reply function: all observations at once, then FINISH."""

    def tool(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        text = json.dumps(arguments)
        if api == "responses":
            call = {"type": "function_call", "call_id": "c", "name": name, "arguments": text}
            return {"output": [call], "usage": {"input_tokens": 1, "output_tokens": 1}}
        calls = [{"id": "c", "type": "function", "function": {"name": name, "arguments": text}}]
        message = {"role": "assistant", "content": None, "tool_calls": calls}
        return {"choices": [{"message": message}], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}

    def reply(request: dict[str, Any]) -> Any:
        first = len(request.get("messages") or request.get("input") or []) == 1
        if protocol == "text":
            return f"GET {BASE}/Observation?_count=100000000" if first else "FINISH([1])"
        return tool("get_observation", {"_count": 100_000_000}) if first else tool("finish", {"answers": [1]})

    return reply


async def endless(scope: Any, receive: Any, send: Any) -> None:
    """A FHIR server whose answers to searches are 30 MB."""
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    if scope["path"].endswith("metadata"):
        await send({"type": "http.response.body", "body": b'{"resourceType": "CapabilityStatement"}'})
        return
    for _ in range(30):
        await send({"type": "http.response.body", "body": b" " * 1_000_000, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


@pytest.mark.parametrize(
    ("where", "protocol", "api"),
    [
        ("embedded", "text", "chat"),
        ("embedded", "tools", "responses"),
        ("http", "text", "responses"),
        ("http", "tools", "chat"),
    ],
)
def test_a_reply_over_20_mb_is_the_agents_error_and_not_owed(
    tmp_path: Path, record: Path, where: str, protocol: str, api: str
) -> None:
    with ModelServer(greedy(protocol, api)) as model, serving(endless) as fhir:
        server = ["--ehr", record] if where == "embedded" else ["--fhir", f"{fhir}/fhir"]
        words = ["--model", "m", "--base-url", model.url, "--api", api, "--protocol", protocol, *server]
        ran = run(tmp_path, *words, "--ids", "task2_1")
    assert ran.code == 0, ran.err + ran.out
    (row,) = episodes(next(tmp_path.iterdir())).values()
    assert row["status"] == "completed"
    assert "the answer is over 20 MB; ask for less, for instance by _count" in row["transcript"][2]["content"]
    assert len(json.dumps(row)) < 20_000


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("Patient.id" + ".select($this & $this)" * 40, "takes too many steps"),
        (f"Patient.name.skip({'9' * 300_000})", "at most"),
        ("Patient.id" + ".replaceMatches('.', '01234567')" * 12, "takes too many steps"),
        (
            "Observation.code.where("
            + "%resource.descendants().where(" * 6
            + "$this.exists()"
            + ").exists()" * 6
            + ")",
            "steps",
        ),
    ],
    ids=["double", "digits", "replace", "descend"],
)
def test_an_expression_without_end_is_the_agents_error(
    expression: str, words: str, tmp_path: Path, record: Path
) -> None:
    parameter = {
        "resourceType": "SearchParameter",
        "status": "active",
        "code": "own",
        "base": ["Patient"],
        "type": "string",
    }
    parameter |= {"url": "http://x/own", "name": "own", "description": "d", "expression": expression}
    parameter["base"] = [expression.partition(".")[0]]

    def reply(request: dict[str, Any]) -> str:
        first = len(request["messages"]) == 1
        return f"POST {BASE}/SearchParameter\n{json.dumps(parameter)}" if first else "FINISH([1])"

    with ModelServer(reply) as model:
        options = ["--model", "m", "--base-url", model.url, "--writes", "execute", "--ehr", record]
        ran = run(tmp_path, *options, "--ids", "task2_1", "--per-item", "time=60")
    assert ran.code == 0, ran.err + ran.out
    (row,) = episodes(next(tmp_path.iterdir())).values()
    assert row["status"] == "completed"
    assert words in row["transcript"][2]["content"], row["transcript"][2]["content"][:500]


BATCH = json.dumps({"resourceType": "Bundle", "type": "batch", "entry": [{"request": {"method": "GET"}}] * 501})
HEAVY = "Observation?" + "&".join(f"code:not=some-code-{n}" for n in range(190)) + "&_total=accurate"
"""So long that it goes to the thread at once."""


@pytest.mark.parametrize(
    ("action", "options", "words"),
    [
        (f"POST {BASE}/\n{BATCH}", {"writes": "execute"}, "a Bundle may have at most 500 entries, not 501"),
        (f"POST {BASE}/\n{BATCH}", {"writes": "ack"}, "POST request accepted"),
        (f"POST {BASE}/Patient\n{json.dumps('x' * 2_000_000)}", {}, "the body is over 2,000,000 characters"),
        (f"GET {BASE}/Observation?_count=100000000", {}, "the answer is over 20 MB"),
    ],
)
def test_a_program_without_an_event_loop_has_the_same_bounds(
    record: Path, action: str, options: dict[str, Any], words: str
) -> None:
    with medagent.episode("task2_1", ehr=record, **options) as episode:
        episode.reset()
        assert words in episode.act(action)
        assert not episode.done


def test_a_tool_call_of_megabytes_is_refused_in_words(record: Path) -> None:
    with medagent.episode("task2_1", ehr=record, protocol="tools") as episode:
        episode.reset()
        assert "the arguments are over 2,000,000 characters" in episode.call("post_observation", {"x": "y" * 2_000_000})


def test_a_long_request_runs_beside_the_event_loop_and_in_turn(tmp_path: Path) -> None:
    path = tmp_path / "ward.ndjson"
    path.write_text("\n".join(ward(1, 1000)))
    ehr = EmbeddedEhr.open(imported_file(path).path, BASE)
    beats, order = 0, []

    async def beat() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(0.001)
            beats += 1

    async def ask(name: str, target: str) -> None:
        async with ehr.session(name) as session:
            assert (await session.get(target)).ok
            order.append(name)

    async def main() -> None:
        pulse = asyncio.create_task(beat())
        long = asyncio.create_task(ask("long", f"/{HEAVY}"))
        await asyncio.sleep(0)
        await ask("short", "/Patient?_count=1")
        await long
        assert beats > 0
        assert order == ["long", "short"]  # one thread at a time uses the server
        gone = asyncio.create_task(ask("gone", f"/{HEAVY}"))
        await asyncio.sleep(0)
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        await ask("after", "/Patient?_count=1")
        assert order[-1] == "after"
        pulse.cancel()

    asyncio.run(main())
    ehr.close()


BESIDE = """
import asyncio
import sys
from pathlib import Path

from medagent.fhir_data.embedded import EmbeddedEhr, imported_file


async def main():
    ehr = EmbeddedEhr.open(imported_file(Path(sys.argv[1])).path, "http://localhost:8080/fhir")
    async with ehr.session("long") as session:
        search = asyncio.create_task(session.get(sys.argv[2]))
        await asyncio.sleep(0.3)  # most likely the database is searching now
        async with ehr.session("twin", ["Observation/o1-7"]):
            print((await search).ok)


asyncio.run(main())
"""
"""Begins an episode with a changed chart while a long search runs in the server's thread."""


def test_an_episode_begins_beside_a_long_search(tmp_path: Path) -> None:
    path = tmp_path / "ward.ndjson"
    path.write_text("\n".join(ward(1, 5000)))
    # In a process of its own: it would stop with the interpreter's lock held, which nothing in it can end.
    words = [sys.executable, "-c", BESIDE, str(path), f"/{HEAVY}"]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert (ran.returncode, ran.stdout) == (0, "True\n"), ran.stderr


class Stuck:
    """A server whose requests do not end before `go`."""

    base = BASE

    def __init__(self) -> None:
        self.go = Event()
        self.closed: list[bool] = []

    def overlay(self, seed: str, now: datetime, amendment: object = (), chart: str = "") -> Stuck:
        return self

    def handle(self, request: Any, meter: Any) -> Any:
        self.go.wait(20)

    def close(self) -> None:
        self.closed.append(self.go.is_set())


def test_a_unit_does_not_wait_for_the_servers_thread() -> None:
    """At the end of its time, or of the run; the overlay is closed once its request has ended."""
    server = Stuck()
    ehr = EmbeddedEhr(server)  # type: ignore[arg-type]  # stands in for a server

    async def main() -> None:
        async with ehr.session("one") as session:
            asking = asyncio.create_task(session.get(f"/{HEAVY}"))
            assert not (await asyncio.wait([asking], timeout=0.05))[0]
            asking.cancel()
            assert (await asyncio.wait([asking]))[0].pop().cancelled()
        assert not server.go.is_set()
        assert server.closed == []

    asyncio.run(main())
    assert server.closed == []
    server.go.set()
    ehr.close()
    assert server.closed == [True, True]  # the overlay, then the file
