"""A hospital's server for tests: it requires a token, and commands make sets from it and run them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from fhir_server import Request, Server
from fhir_server.app import create_app
from tests.command import Ran
from tests.command import medagent as command
from tests.medagent.benchmarks.custom.ward3 import NOW
from tests.serving import serving

TOKEN = "ward-token"
FEW = ("--per-type", 4)
Answer = Callable[[str], tuple[int, bytes] | None]


class Hospital:
    """A hospital's server that requires a token. It notes each request; `answer` may answer in its place."""

    def __init__(self, url: str, server: Server) -> None:
        self.url, self.server = f"{url}/fhir", server
        self.tokens = {TOKEN}
        self.requests: list[str] = []
        self.answer: Answer = lambda _: None

    @property
    def lines(self) -> list[str]:
        """All resources."""
        return [line for kind in self.server.stats() for line in self.server.export(kind)]

    def server_says(self, kind: str, query: str) -> bytes:
        """The server's own reply to a search."""
        return self.server.handle(Request("GET", f"/fhir{kind}?{query}")).body

    def charts(self) -> list[str]:
        """The searches of patients' charts that were sent."""
        return [request for request in self.requests if "patient=" in request]


@contextmanager
def opened(charts: Iterator[dict[str, Any]]) -> Iterator[Hospital]:
    server = Server.open(None)
    server.load([json.dumps(resource) for resource in charts])
    app, hospital = create_app(server), Hospital("", server)

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        target = unquote(f"{scope['path']}?{scope['query_string'].decode()}").removeprefix("/fhir")
        hospital.requests.append(f"{scope['method']} {target}")
        sent = dict(scope["headers"]).get(b"authorization", b"").decode().removeprefix("Bearer ")
        reply = hospital.answer(target) if sent in hospital.tokens else (401, b"{}")
        if reply is None:
            await app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": reply[0], "headers": []})
        await send({"type": "http.response.body", "body": reply[1]})

    with serving(guarded) as url:
        hospital.url = f"{url}/fhir"
        yield hospital
    server.close()


def new(hospital: Hospital, *words: object, folder: str = "ward") -> Ran:
    """`medagent data new` with the ward's clock and a known seed, where the words name none."""
    usual = {"--now": NOW, "--seed": "ward"}
    rest = [word for name, value in usual.items() if name not in words for word in (name, value)]
    return command("data", "new", folder, "--from", "ward3.py", "--fhir", hospital.url, *rest, *words)


def run(hospital: Hospital, agent: object, *words: object) -> Ran:
    server = ("--fhir", hospital.url, "--writes", "private")
    return command("run", "ward3.py", "--dataset", "ward", *server, "--agent", agent, *words)


def report(ran: Ran) -> dict[str, Any]:
    assert ran.code in (0, 2), ran.err
    document: dict[str, Any] = json.loads(ran.out)
    return document


def overall(document: Mapping[str, Any], name: str = "overall") -> tuple[int, int]:
    lines = {line["name"]: line for section in document["table"] for line in section["lines"]}
    return lines[name]["counts"]["right"], lines[name]["n"]


def tasks(folder: Path) -> list[dict[str, Any]]:
    read: list[dict[str, Any]] = [json.loads(line) for line in (folder / "tasks.jsonl").read_text().splitlines()]
    return read


def changed(hospital: Hospital, patient: str) -> None:
    """The hospital corrects all of a patient's readings and drugs."""
    for line in hospital.lines:
        resource = json.loads(line)
        if resource["resourceType"] == "Observation" and resource["subject"]["reference"] == f"Patient/{patient}":
            resource["valueQuantity"]["value"] += 40
            hospital.server.load([json.dumps(resource)])
