"""Facts over HTTP, and from a server in the same process: the same answers to the same questions."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from fhir_server import Request, Response, Server
from fhir_server.app import Message, Receive, Send, create_app
from medagent.fhir_data.asking import http_ask
from medagent.fhir_data.facts import server_facts
from refsol.errors import FactsError
from refsol.medagentbench import SearchEhr, Source
from tests.serving import serving

BASE = "http://localhost/fhir"
PATIENT = '{"resourceType": "Patient", "id": "S1", "identifier": [{"value": "S1"}], "birthDate": "1963-11-13"}'
READING = (
    '{"resourceType": "Observation", "id": "o1", "status": "final", "code": {"coding": [{"code": "MG"}]}, '
    '"subject": {"reference": "Patient/S1"}, "effectiveDateTime": "2023-11-13T06:00:00+00:00", '
    '"valueQuantity": {"value": 1.8}}'
)


@pytest.fixture
def server() -> Iterator[Server]:
    with_data = Server.open(None, base=BASE)
    try:
        with_data.load([PATIENT, READING])
        yield with_data
    finally:
        with_data.close()


def read(facts: Source) -> tuple[str, float]:
    """The birth date and the last magnesium of the patient."""
    (patient,) = facts.search("Patient", identifier="S1")
    (reading,) = facts.search("Observation", patient="S1", code="MG")
    return patient["birthDate"], reading["valueQuantity"]["value"]


def test_a_server_in_process_answers(server: Server) -> None:
    facts = server_facts(server, BASE)
    assert read(facts) == ("1963-11-13", 1.8)
    assert facts.search("Patient", identifier="S 2é") == []


async def _login(scope: Message, receive: Receive, send: Send) -> None:
    """An ASGI application that knows one token and one login, and is no FHIR server."""
    sent = {name.decode(): value.decode() for name, value in scope["headers"]}
    known = sent.get("x-token") == "t" and sent.get("authorization", "").startswith("Basic ")
    status, body = (200, b'{"resourceType": "Bundle"}') if known else (401, b"")
    await send({"type": "http.response.start", "status": status, "headers": []})
    await send({"type": "http.response.body", "body": body})


def test_headers_and_a_login_are_sent() -> None:
    with serving(_login) as url:
        address = url.replace("//", "//user:secret@")
        assert SearchEhr(*http_ask(address, {"X-Token": "t"}, None)).search("Patient", identifier="S1") == []
        with pytest.raises(FactsError, match="status 401") as refused:
            SearchEhr(*http_ask(address, {}, None)).search("Patient", identifier="S1")
    assert "secret" not in str(refused.value)


def test_a_server_over_http_answers(server: Server) -> None:
    with serving(create_app(server)) as url:
        facts = SearchEhr(*http_ask(f"{url}/fhir", {}, None))
        assert read(facts) == ("1963-11-13", 1.8)


def test_threads_ask_a_server_in_process_one_after_the_other(server: Server) -> None:
    inside = 0
    handle = server.handle

    def watched(request: Request) -> Response:
        nonlocal inside
        inside += 1
        assert inside == 1
        time.sleep(0.002)  # lets the other threads in, if they may
        answer = handle(request)
        inside -= 1
        return answer

    server.handle = watched
    facts = server_facts(server, BASE)
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda n: facts.search("Patient", identifier=f"S{n}"), range(24)))
    assert found[1][0]["birthDate"] == "1963-11-13"
    assert found[2:] == [[]] * 22


def test_a_server_that_is_busy_is_asked_again_once_it_has_answered(server: Server) -> None:
    inner, asked = create_app(server), 0

    async def busy(scope: Any, receive: Any, send: Any) -> None:
        nonlocal asked
        asked += 1
        if asked != 2:
            await inner(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 503, "headers": [(b"retry-after", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    with serving(busy) as url:
        facts = SearchEhr(*http_ask(f"{url}/fhir", {}, None))
        assert facts.search("Patient", identifier="none") == []
        assert facts.search("Patient", identifier="S1")[0]["birthDate"] == "1963-11-13"
    assert asked == 3


def test_a_server_that_is_away_is_said() -> None:
    facts = SearchEhr(*http_ask("http://127.0.0.1:9/fhir", {}, None))
    for _ in range(2):
        with pytest.raises(FactsError, match=r"^http://127\.0\.0\.1:9/fhir/Patient\S+: no answer: "):
            facts.search("Patient", identifier="S1")
