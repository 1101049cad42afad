"""Whatever is sent of whichever R4 type, the answer is FHIR JSON and no 500, and the server goes on answering."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fhir_server import Request, Response, Server
from fhir_server.bounds import Bounds, Meter, OverBoundsError
from fhir_server.definitions import resource_types
from fhir_server.wire.xml import parse_xml
from tests.fhir_server.chance import JSON_TYPE, Chance

RELAXED = settings(database=None, suppress_health_check=list(HealthCheck))
SEEDS = st.integers(0, 2**63)
BURST = 20
"""Requests of one seed."""


@pytest.fixture(scope="module", params=[True, False], ids=["checked", "unchecked"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with Server.open(None, reference_check=request.param) as server:
        server.load(json.dumps({"resourceType": kind, "id": name}) for kind in resource_types() for name in "ab")
        yield server


def held(request: Request, answer: Response) -> None:
    assert 200 <= answer.status < 500, (request, answer.text)
    if answer.header("content-disposition"):
        assert "/Binary" in request.target, request  # its content, as it is
    elif answer.body:
        kind = answer.header("content-type") or ""
        assert "html" in kind or (parse_xml if "xml" in kind else json.loads)(answer.text)["resourceType"], request
    else:
        assert answer.status < 400 or request.method == "HEAD", request
    for name, value in answer.headers:
        assert value.isprintable(), (request, name)


def drive(server: Server, seed: int) -> None:
    """A burst in an overlay of its own, so that what one burst deletes is there for the next."""
    chance = Chance(seed)
    with server.overlay(str(seed), datetime(2023, 11, 13, tzinfo=UTC)) as overlay:
        for _ in range(BURST):
            request = chance.request()
            with suppress(OverBoundsError):  # one search in a hundred thousand takes minutes
                held(request, overlay.handle(request, Meter(Bounds())))
        assert overlay.handle(Request("GET", "/fhir/Patient/a")).status in (200, 410)


@settings(RELAXED, max_examples=60)
@given(seed=SEEDS)
def test_no_request_is_a_500(server: Server, seed: int) -> None:
    drive(server, seed)


@pytest.mark.long
def test_no_request_is_a_500_for_five_minutes(server: Server) -> None:
    end = time.monotonic() + 150

    @settings(RELAXED, max_examples=1000)
    @given(seed=SEEDS)
    def more(seed: int) -> None:
        drive(server, seed)

    while time.monotonic() < end:
        more()


@pytest.mark.parametrize(
    ("text", "kept"),
    [("0000", "0"), ("007.50", "7.50"), (".5", "0.5"), ("5.", "5"), ("+4.10", "4.10"), ("-0", "0"), ("-00.1e2", "-10")],
)
def test_a_number_sent_as_text_is_stored_as_a_number(server: Server, text: str, kept: str) -> None:
    with server.overlay(text, datetime(2023, 11, 13, tzinfo=UTC)) as overlay:
        body = json.dumps({"resourceType": "Observation", "valueQuantity": {"value": text}}).encode()
        created = overlay.handle(Request("POST", "/fhir/Observation", [JSON_TYPE], body))
        assert f'"value": {kept}\n' in created.text
        assert json.loads(created.text)["valueQuantity"]["value"] == float(kept)


@settings(RELAXED, max_examples=40)
@given(seed=SEEDS)
def test_what_is_stored_is_stored_again_without_change(server: Server, seed: int) -> None:
    """A text that the server gave is in the form it stores: putting it again makes no version."""
    chance = Chance(seed)
    for kind in resource_types()[seed % 8 :: 16]:
        with server.overlay(str(seed), datetime(2023, 11, 13, tzinfo=UTC)) as overlay:
            body = json.dumps({**chance.resource(kind), "id": "c"}).encode()
            created = overlay.handle(Request("PUT", f"/fhir/{kind}/c", [JSON_TYPE], body))
            held(Request("PUT", kind, (), body), created)
            # HAPI writes an extension without a URL with `null`, and for one that says nothing an empty object: neither
            # is read back.
            if created.status == 201 and '"url": null' not in created.text and "{ }" not in created.text:
                again = overlay.handle(Request("PUT", f"/fhir/{kind}/c", [JSON_TYPE], created.body))
                assert (again.status, again.header("etag")) == (200, 'W/"1"'), (kind, created.text, again.text)
