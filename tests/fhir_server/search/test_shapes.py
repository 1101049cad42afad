"""Plans by shape: a plain search is planned once a shape, and each plan is the one that it would have by itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fhir_server import Server
from fhir_server.search import shapes
from fhir_server.search.plan import plan
from fhir_server.search.query import parse
from fhir_server.search.walks import Planned
from fhir_server.terminology.library import HL7
from tests.fhir_server.ward import found, send, ward

KINDS = ("Observation", "Patient", "Encounter", "MedicationRequest", "Basic")
NAMES = (
    *(
        "patient",
        "subject",
        "code",
        "category",
        "status",
        "identifier",
        "gender",
        "active",
        "encounter",
        "organization",
    ),
    *("class", "based-on", "general-practitioner", "_count"),
)
STARTS = ("", "", "Patient/", "http://loinc.org|", "|", "Group/x/_history/")
PLAIN = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,8}[A-Za-z0-9])?", fullmatch=True)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with ward() as server:
        yield server


def parts(one: Planned) -> tuple[object, ...]:
    return one.sql, one.values


@settings(deadline=None, database=None, max_examples=300, suppress_health_check=list(HealthCheck))
@given(
    kind=st.sampled_from(KINDS),
    pairs=st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(STARTS), PLAIN), min_size=1, max_size=4),
)
def test_a_shape_gives_the_same_plan(server: Server, kind: str, pairs: list[tuple[str, str, str]]) -> None:
    registry = server.context.store.registry
    asked = tuple((name, "5" if name == "_count" else start + value) for name, start, value in pairs)
    known = shapes.understood(registry, kind, asked)
    if known is None:
        return
    query = parse(registry, kind, asked)
    assert parts(known[1]) == parts(plan(query, registry, HL7))
    assert (known[0].count, known[0].sort, known[0].includes) == (query.count, query.sort, query.includes)


@pytest.mark.parametrize(
    ("pairs", "is_shape"),
    [
        ((("patient", "p7"), ("code", "K")), True),
        ((("subject", "Patient/p7"), ("code", "http://loinc.org|2823-3"), ("_count", "7")), True),
        ((("code", "K,MG"),), False),
        ((("code", "K "),), False),
        ((("code:in", "K"),), False),
        ((("date", "2023"),), False),
        ((("_id", "p7"),), False),
        ((("patient.name", "x"),), False),
        ((("nope", "x"),), False),
        ((("code", ""),), False),
    ],
)
def test_what_has_a_shape(server: Server, pairs: tuple[tuple[str, str], ...], is_shape: bool) -> None:
    assert (shapes.understood(server.context.store.registry, "Observation", pairs) is not None) == is_shape


def test_a_parameter_that_changes_is_planned_again(server: Server) -> None:
    assert found(server, "Patient?gender=male") == ["p8"]
    own = {
        "resourceType": "SearchParameter",
        "id": "own",
        "url": "http://x/own",
        "name": "own",
        "status": "active",
        "description": "x",
        "code": "gender",
        "base": ["Patient"],
        "type": "token",
        "expression": "Patient.identifier",
    }
    assert send(server, "PUT", "SearchParameter/own", own).status == 201
    assert (found(server, "Patient?gender=male"), found(server, "Patient?gender=8")) == ([], ["p8"])
