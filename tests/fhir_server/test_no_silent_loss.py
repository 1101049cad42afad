"""What a client sends is either refused or kept: after any accepted write, a read has every element that was sent.

HAPI's lenient reader leaves some things out. `DROPPED` names each, with a request of the recorded rows that shows it;
nothing else may be missing.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fhir_server import Request, Server
from fhir_server.definitions import elements
from fhir_server.patch.json_patch import apply_json_patch
from fhir_server.wire.json_text import decode
from tests.fhir_server.chance import Chance
from tests.shared_data import DATA, read_xz

JSON = [("Content-Type", "application/fhir+json")]
PATCH = [("Content-Type", "application/json-patch+json")]
RELAXED = settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))
KINDS = ("Patient", "Observation", "Condition", "MedicationRequest", "Encounter", "Questionnaire", "List", "Bundle")
VALUES = ("x", 1, 1.5, True, None, {}, [], ["x"], [{}], {"text": "y"}, {"foo": 1}, [{"text": "y"}], [["x"]], "", " ")
DROPPED = {
    "an object with nothing in it": ("PATCH", '"/name", "value": [{}]'),
    "a blank text": ("POST", '{"resourceType":"Patient","gender":" "}'),
    "what meta has of the server, and labels that repeat": ("POST", '"meta":{"lastUpdated":"2023"}'),
    "an id of an update": ("PATCH", '"/id", "value": "x"'),
    "what stands in an extension without a url, and one without a value": (
        "PATCH",
        '"/_birthDate", "value": {"family": "x"}',
    ),
}
"""Why something may be missing, and a recorded request in which HAPI leaves it out: method, and a part of the body."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server.open(None, reference_check=False) as opened:
        for name in ("a", "b"):
            body = json.dumps({"resourceType": "Patient", "id": name, "active": True}).encode()
            assert opened.handle(Request("PUT", f"/fhir/Patient/{name}", JSON, body)).status == 201
        yield opened


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """The scalars of a resource, each with its path without positions; lists of one are as good as one."""
    if isinstance(value, dict):
        for key, inner in value.items():
            named = key not in ("extension", "modifierExtension") or not isinstance(inner, list)
            yield from leaves(
                inner if named else [element for element in inner if says_something(element)], f"{path}.{key}"
            )
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner, path)
    elif value is not None:
        yield path, str(value).lower() if isinstance(value, bool) else str(value)


def says_something(extension: Any) -> bool:
    """Whether an extension has a url and a value that is not empty."""
    url = extension.get("url") if isinstance(extension, dict) else None
    if not isinstance(url, str) or not url.strip():
        return False
    return any(value.strip() for _, value in leaves({key: extension[key] for key in extension if key != "url"}))


def is_dropped(path: str, value: str) -> bool:
    """Whether `DROPPED` names why it may be missing."""
    return not value.strip() or path.startswith(".meta.") or path in (".id", ".resourceType")


def missing(sent: Any, kept: Any) -> list[tuple[str, str]]:
    """What was sent and is not kept."""
    there = sorted(leaves(kept))
    return [leaf for leaf in leaves(sent) if leaf not in there and not is_dropped(*leaf)]


def read(server: Server, target: str) -> Any:
    return decode(server.handle(Request("GET", target)).text)


def plain(chance: Chance, kind: str) -> Any:
    """A resource of a type whose values are kept as they are sent: no narrative, no references with versions."""
    resource = json.loads(json.dumps(chance.resource(kind)))
    return {key: value for key, value in resource.items() if key not in ("text", "contained", "meta")}


@settings(RELAXED, max_examples=150)
@given(seed=st.integers(0, 10**6), kind=st.sampled_from(KINDS))
def test_a_write_keeps_all_or_is_refused(server: Server, seed: int, kind: str) -> None:
    sent = {**plain(Chance(seed, damage=0), kind), "id": "x"}
    body = json.dumps(sent).encode()
    answer = server.handle(Request("PUT", f"/fhir/{kind}/x", JSON, body))
    assert answer.status in (200, 201, 400, 422), answer.text
    if answer.status < 400:
        assert missing(decode(body.decode()), read(server, f"/fhir/{kind}/x")) == []


@settings(RELAXED, max_examples=300)
@given(seed=st.integers(0, 10**6), value=st.sampled_from(VALUES), place=st.integers(0, 10**6))
def test_a_json_patch_keeps_all_or_is_refused(server: Server, seed: int, value: Any, place: int) -> None:
    kind = random.Random(seed).choice(("Patient", "Observation", "Condition"))
    body = json.dumps({**plain(Chance(seed, damage=0), kind), "id": f"p{seed}"}).encode()
    if server.handle(Request("PUT", f"/fhir/{kind}/p{seed}", JSON, body)).status >= 400:
        return
    before = read(server, f"/fhir/{kind}/p{seed}")
    pointers = sorted(places(before)) + [f"/{element.name}" for element in elements(kind)]
    operation = {"op": "add", "path": pointers[place % len(pointers)], "value": value}
    answer = server.handle(Request("PATCH", f"/fhir/{kind}/p{seed}", PATCH, json.dumps([operation]).encode()))
    after = read(server, f"/fhir/{kind}/p{seed}")
    assert answer.status in (200, 400, 422), answer.text
    if answer.status == 200:
        assert missing(apply_json_patch(before, decode(json.dumps([operation]))), after) == []
    else:
        assert after == before


def places(value: Any, path: str = "") -> Iterator[str]:
    """The JSON Pointers of all that a document holds."""
    listed = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in listed:
        yield f"{path}/{key}"
        yield from places(inner, f"{path}/{key}")


@pytest.mark.parametrize("why", DROPPED)
def test_hapi_drops_it_too(why: str) -> None:
    method, part = DROPPED[why]
    rows = [json.loads(line) for line in read_xz(DATA / "hapi" / "live.jsonl.xz").splitlines()]
    shown = [row for row in rows if row["request"]["method"] == method and part in (row["request"]["body"] or "")]
    assert any(row["response"]["status"] in (200, 201) for row in shown)
