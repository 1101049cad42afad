"""Rules of reading that no recording shows: they follow from HAPI FHIR's sources, and stand here with its words."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from fhir_server import Server
from fhir_server.search.hashing import id_hash, index_hash, java_order
from tests.fhir_server.ward import found, next_link, resources, said, seen, send, ward


@pytest.fixture
def server() -> Iterator[Server]:
    with ward() as server:
        yield server


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("Observation?date=2023-11-01&date=2023-11-02", 400, "HAPI-1922: Can not have multiple date range parameters"),
        ("Observation?date=ge2023&date=2023-11-02", 400, "HAPI-1922: Can not have multiple date range parameters"),
        ("Observation?date=ne2023&date=ge2023-05", 400, "HAPI-1923: Can not have multiple date range parameters"),
        ("Observation?_lastUpdated=le2023&_lastUpdated=lt2024", 400, "HAPI-1924: Can not have multiple date range"),
        ("Observation?date=2023-11-12%2010:15", 400,
         "HAPI-1883: Invalid date/time format: \"2023-11-12+10:15\": Expected character 'T' at index 10 but found +"),
        ("Observation?date=ge%202023", 400, 'HAPI-1941: Invalid prefix: "ge+"'),
        ("Observation?_include=Foo:bar", 400, 'HAPI-2017: Invalid _include parameter value: "Foo:bar". '
         'Invalid/unsupported resource type: "Foo"'),
        ("Observation?_include=:subject", 400, 'HAPI-2018: Invalid _include parameter value: ":subject". '),
        ("Observation?_revinclude=:*", 400, 'HAPI-2018: Invalid _revinclude parameter value: ":*". '),
        ("Observation?_include=Observation:subject:Foo", 400, "HAPI-2016: Invalid _include parameter value"),
        ("Observation?patient:foo=x", 400, 'HAPI-2498: Unsupported search modifier(s): "[:foo]" for resource type'),
        ("Observation?subject:Foo=x", 400, 'HAPI-2498: Unsupported search modifier(s): "[:Foo]"'),
        ("Observation?subject:Foo.name=x", 400, 'HAPI-1250: Invalid/unsupported resource type: "Foo"'),
        ("Patient?identifier:of-type=a|b|c", 405, "HAPI-2012: The :of-type modifier is not enabled on this server"),
        ("Patient?_tag=urn:t|", 400, "HAPI-1218: Missing _tag parameter (must supply a value/code"),
        ("Patient/p7/_history/abc", 404, 'HAPI-0978: Version "abc" is not valid for resource Patient/p7'),
    ],
)  # fmt: skip
def test_what_is_refused(server: Server, query: str, status: int, words: str) -> None:
    code, diagnostics = said(send(server, "GET", query))
    assert code == status
    assert diagnostics.startswith(words)


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("Observation?patient.birthdate=1970,1990&_sort=_id", ["o0", "o2"]),
        ("Patient?_has:Observation:patient:date=2023-11-10,2023-11-12&_sort=_id", ["p7", "p9"]),
        ("Observation?_include=Observation:date&_id=o0", ["o0"]),
        ("Observation?value-quantity=1e2", ["o1"]),
        ("Observation?value-quantity=100.4", []),
        ("Observation?value-quantity=ne100&_sort=_id", ["o0", "o2"]),
        ("Observation?_count=1&_count=3&_sort=_id", ["o0"]),
        ("Observation?_include=&_sort=_id", ["o0", "o1", "o2"]),
        ("Observation?subject=Patient/p8/_history/1", ["o1"]),
        ("Observation?_sort=-subject", ["o2", "o1", "o0"]),
    ],
)
def test_what_is_found(server: Server, query: str, ids: list[str]) -> None:
    assert found(server, query) == ids


def test_alternatives_of_one_code_come_in_the_order_of_their_hashes(server: Server) -> None:
    by_hash = sorted((7, 8, 9), key=lambda n: index_hash("Patient", "identifier", f"urn:z{n}", "X"))
    assert by_hash != [7, 8, 9], "no test of an order"
    assert found(server, "Patient?identifier=urn:z7|X,urn:z8|X,urn:z9|X") == [f"p{n}" for n in by_hash]


@pytest.mark.parametrize(
    ("query", "value"),
    [
        ("Patient?name", "n{}"),
        ("Patient?name:contains", "n{}_"),
        ("Patient?identifier", "urn:z|n{}"),
        ("Observation?code:not", "urn:z|n{}"),
        ("Observation?value-quantity", "{}|urn:z|mg"),
        ("Observation?patient.birthdate", "1{:03}"),
        ("Patient?_has:Observation:patient:code", "urn:z|n{}"),
        ("Observation?_sort=date&code", "urn:z|n{}"),
    ],
)
def test_a_condition_may_have_1000_alternatives(server: Server, query: str, value: str) -> None:
    alternatives = ",".join(value.format(number) for number in range(1000))
    assert isinstance(found(server, f"{query}={alternatives}"), list)


def test_the_order_of_a_java_set_beyond_128() -> None:
    numbers = list(range(1, 200))
    hashes = {number: 31 * (31 + 31) + number for number in numbers}
    assert java_order(numbers, id_hash) == sorted(numbers, key=lambda n: (hashes[n] ^ hashes[n] >> 16) % 512)


def test_history_since_and_at(server: Server) -> None:
    now = json.loads(send(server, "GET", "Patient/p7").text)["meta"]["lastUpdated"].replace("+", "%2B")
    for query, total in (
        ("_history?_since=2100-01-01T00:00:00Z", 0),
        ("Patient/_history?_since=2020-01-01T00:00:00Z", 3),
        ("Patient/_history?_at=lt2020", 0),
        ("Patient/p7/_history?_at=ge2100", 1),  # the version that is current then
        (f"Patient/p7/_history?_since={now}", 1),
    ):
        bundle = json.loads(send(server, "GET", query).text)
        assert "total" not in bundle  # HAPI counts no versions by time
        assert (query, len(bundle.get("entry", []))) == (query, total)


def test_a_page_of_history_keeps_its_times(server: Server) -> None:
    following = next_link(server, "Patient/_history?_since=2020-01-01T00:00:00Z&_count=2")
    assert following.endswith("/Patient/_history?_count=2&_offset=2&_since=2020-01-01T00%3A00%3A00Z")
    second = json.loads(send(server, "GET", following.partition("/fhir/")[2]).text)
    assert len(second["entry"]) == 1


def test_references_are_sorted_by_what_they_lead_to(server: Server) -> None:
    """p7, p8, p9 were created in this order; this one last, and its name would come first."""
    assert send(server, "PUT", "Patient/a", {"resourceType": "Patient", "id": "a"}).status == 201
    assert send(server, "PUT", "Observation/first", {**seen("Patient/a"), "id": "first"}).status == 201
    assert found(server, "Observation?_sort=subject") == ["o0", "o1", "o2", "first"]


def test_what_a_page_link_repeats(server: Server) -> None:
    asked = "Patient?_count=1&_elements=name,birthDate,name&_revinclude=Observation:patient&_include=Patient:link"
    link = next_link(server, f"{asked}&_format=application/fhir+json&_format=json")
    shaped = "_pretty=true&_include=Patient%3Alink&_bundletype=searchset&_elements=birthDate,name"
    assert link.endswith(f"_count=1&_format=application%2Ffhir%2Bjson&{shaped}")


@pytest.mark.parametrize(("value", "pretty"), [("true", True), ("false", False), ("1", False), ("TRUE", False)])
def test_only_true_is_pretty(server: Server, value: str, pretty: bool) -> None:
    assert ("\n" in send(server, "GET", f"Patient/p7?_pretty={value}").text) == pretty
    assert ("_pretty=true" in next_link(server, f"Patient?_count=1&_pretty={value}")) == pretty


def test_what_refers_is_included_before_what_is_referred_to(server: Server) -> None:
    meeting = {"resourceType": "Encounter", "id": "e", "status": "planned", "class": {"code": "AMB"}}
    assert send(server, "PUT", "Encounter/e", meeting).status == 201
    observation = {**seen("Patient/p7"), "id": "o0", "encounter": {"reference": "Encounter/e"}}
    assert send(server, "PUT", "Observation/o0", observation).status == 200
    asked = "Patient?_id=p7&_include=Observation:encounter&_revinclude=Observation:patient"
    assert found(server, asked) == ["p7", "o0", "e"]


def test_elements_are_those_of_the_type_in_the_address(server: Server) -> None:
    observation, patient = resources(server, "Observation?_id=o0&_include=Observation:subject&_elements=status")
    assert set(observation) == {"resourceType", "id", "meta", "status"}
    assert patient["birthDate"] == "1970-01-01"
    assert "tag" not in patient["meta"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"If_None_Match": "1"}, 304),
        ({"If_None_Match": "*"}, 200),
        ({"If_None_Match": 'W/"9"', "If_Modified_Since": "Sat, 01 Jan 2050 00:00:00 GMT"}, 304),
        ({"If_None_Match": 'W/"9"'}, 200),
    ],
)
def test_a_read_under_a_condition(server: Server, headers: dict[str, str], status: int) -> None:
    assert send(server, "GET", "Patient/p7", **headers).status == status


def test_a_source_is_found_by_either_half(server: Server) -> None:
    made = {"resourceType": "Patient", "id": "s", "meta": {"source": "http://src"}}
    stored = json.loads(send(server, "PUT", "Patient/s", made, X_Request_ID="req1").text)["meta"]["source"]
    assert stored == "http://src#req1"
    for asked in ("http://src", "%23req1", "http://src%23req1"):
        assert found(server, f"Patient?_source={asked}") == ["s"]
    assert found(server, "Patient?_source=http://sr") == []


def test_what_is_included_again_and_again_is_one_set() -> None:
    """What `:iterate` adds in all rounds is one HashSet, behind what is added once (asked of HAPI)."""
    patients = [("Patient", f"t{n}", {"managingOrganization": {"reference": "Organization/p"}}) for n in range(9)]
    others = [("Observation", f"b{n}", {"subject": {"reference": f"Patient/t{n}"}}) for n in range(9)]
    listed: list[tuple[str, str, dict[str, object]]] = [("Organization", "p", {}), *patients, *others]
    with Server.open(None) as server:
        for kind, name, more in listed:
            assert send(server, "PUT", f"{kind}/{name}", {"resourceType": kind, "id": name, **more}).status == 201

        def ids(query: str) -> list[str]:
            entries = json.loads(send(server, "GET", query).text)["entry"]
            return [entry["resource"]["id"] for entry in entries]

        def in_order(*kinds: str) -> list[str]:
            numbers = {number: name for number, (kind, name, _) in enumerate(listed, 1) if kind in kinds}
            return [numbers[number] for number in java_order(numbers, id_hash)]

        again = "_revinclude:iterate=Observation:patient&_count=50"
        iterated = ids(f"Organization?_id=p&_revinclude:iterate=Patient:organization&{again}")
        assert iterated == ["p", *in_order("Patient", "Observation")]
        once = ids(f"Organization?_id=p&_revinclude=Patient:organization&{again}")
        assert once == ["p", *in_order("Patient"), *in_order("Observation")]
