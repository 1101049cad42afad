"""Large bodies: answered by a process of their own, while the server answers the others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from fhir_server import Request, Response, Server
from fhir_server.app import create_app
from fhir_server.errors import FhirError
from fhir_server.processes.helper import CPU_S, LARGE, HelpedServer, takes_long

JSON = [("Content-Type", "application/fhir+json")]
PATIENTS = 60


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server.open(tmp_path / "store.sqlite") as server:
        server.load(json.dumps({"resourceType": "Patient", "id": f"p{number}"}) for number in range(PATIENTS))
        yield server


def create(kind: str = "Patient", **members: object) -> Request:
    return Request("POST", f"/fhir/{kind}", JSON, json.dumps({"resourceType": kind, **members}).encode())


def large(kind: str, *entries: object) -> Request:
    """A Bundle that is long enough for the helper."""
    body = json.dumps({"resourceType": "Bundle", "type": kind, "entry": entries}).encode()
    return Request("POST", "/fhir", JSON, body + b" " * LARGE)


def put(name: str, subject: str) -> object:
    resource = {"resourceType": "Basic", "id": name, "code": {"text": "x"}, "subject": {"reference": subject}}
    return {"resource": resource, "request": {"method": "PUT", "url": f"Basic/{name}"}}


async def came(given: Response | Awaitable[Response]) -> Response:
    return given if isinstance(given, Response) else await given


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110  # nothing in the server says it by an Event
        await asyncio.sleep(0)


def in_loop(server: Server, steps: Callable[[HelpedServer], Awaitable[None]], cpu_s: float = CPU_S) -> None:
    async def run() -> None:
        async with HelpedServer(server, cpu_s) as helped:
            await steps(helped)

    asyncio.run(run())


def test_reads_go_on_and_writes_wait(server: Server) -> None:
    async def steps(helped: HelpedServer) -> None:
        big = asyncio.ensure_future(came(helped.handle(large("transaction", put("a", "Patient/p1")))))
        await until(lambda: server.store.writes_elsewhere)
        read = helped.handle(Request("GET", "/fhir/Patient/p1"))
        assert isinstance(read, Response)
        assert read.status == 200
        small = helped.handle(create())
        assert not isinstance(small, Response)
        assert (await small).status == 201
        assert big.done()
        assert (await big).status == 200
        again = helped.handle(create())
        assert isinstance(again, Response)
        found = helped.handle(Request("GET", "/fhir/Basic?subject=Patient/p1"))
        assert isinstance(found, Response)
        assert json.loads(found.body)["total"] == 1

    in_loop(server, steps)


def test_pages_of_a_search_in_a_large_batch(server: Server) -> None:
    async def steps(helped: HelpedServer) -> None:
        search = {"request": {"method": "GET", "url": "Patient?_count=20"}}
        batch = json.loads((await came(helped.handle(large("batch", search)))).body)
        page = batch["entry"][0]["resource"]
        seen = []
        while page:
            seen += [entry["resource"]["id"] for entry in page["entry"]]
            urls = [link["url"] for link in page["link"] if link["relation"] == "next"]
            answers = [await came(helped.handle(Request("GET", "/fhir?" + url.split("?")[1]))) for url in urls]
            page = answers and json.loads(answers[0].body)
        assert len(set(seen)) == len(seen) == PATIENTS

    in_loop(server, steps)


def test_a_large_transaction_that_fails_leaves_nothing(server: Server) -> None:
    async def steps(helped: HelpedServer) -> None:
        answer = await came(helped.handle(large("transaction", put("a", "Patient/p1"), put("b", "Patient/none"))))
        assert answer.status == 400
        assert (await came(helped.handle(Request("GET", "/fhir/Basic/a")))).status == 404

    in_loop(server, steps)


def test_a_helper_that_dies_is_said_and_replaced(server: Server) -> None:
    """The client is told; the next large body finds another helper, and small writes are taken again."""

    async def over_http(helped: HelpedServer, request: Request) -> httpx.Response:
        transport = httpx.ASGITransport(create_app(helped))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost:8080") as client:
            return await client.post(request.target, content=request.body, headers=dict(request.headers))

    async def steps(helped: HelpedServer) -> None:
        request = large("transaction", put("a", "Patient/p1"))
        big = asyncio.ensure_future(over_http(helped, request))
        await until(lambda: helped.process is not None)
        assert helped.process is not None
        helped.process.kill()
        answer = await big
        assert answer.status_code == 503
        issue: Any = answer.json()["issue"][0]
        assert (issue["code"], "not known" in issue["diagnostics"]) == ("transient", True)
        assert isinstance(helped.handle(create()), Response)
        assert (await over_http(helped, request)).status_code == 200

    in_loop(server, steps)


def test_a_search_parameter_is_brought_into_force_by_the_helper(server: Server) -> None:
    definition = {"resourceType": "SearchParameter", "status": "active", "code": "mine", "base": ["Patient"]}
    body = json.dumps({**definition, "type": "token", "expression": "Patient.id"}).encode()

    async def steps(helped: HelpedServer) -> None:
        made = helped.handle(Request("POST", "/fhir/SearchParameter", JSON, body))
        assert not isinstance(made, Response)
        assert (await made).status == 201
        found = helped.handle(Request("GET", "/fhir/Patient?mine=p7"))
        assert isinstance(found, Response)
        assert json.loads(found.body)["total"] == 1

    in_loop(server, steps)


def test_a_request_that_takes_too_much_cpu_ends_and_the_next_one_is_answered(server: Server) -> None:
    async def steps(helped: HelpedServer) -> None:
        entries = [put(f"b{number}", "Patient/p1") for number in range(30_000)]
        with pytest.raises(FhirError) as refused:
            await came(helped.handle(large("transaction", *entries)))
        assert (refused.value.status, refused.value.code) == (400, "too-costly")
        assert "nothing of it was stored" in refused.value.diagnostics
        assert server.stats() == {"Patient": PATIENTS}
        assert (await came(helped.handle(create()))).status == 201
        assert (await came(helped.handle(large("batch")))).status == 200

    in_loop(server, steps, cpu_s=0.2)


def test_a_definition_in_a_bundle_is_for_the_helper() -> None:
    definition = {"resourceType": "SearchParameter"}
    entry = {"resource": definition, "request": {"method": "POST", "url": "SearchParameter"}}
    body = json.dumps({"resourceType": "Bundle", "type": "batch", "entry": [entry]}).encode()
    assert takes_long(Request("POST", "/fhir", JSON, body))
    assert not takes_long(Request("GET", "/fhir/SearchParameter"))
