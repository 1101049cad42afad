"""Rules that no recording shows: they follow from the sources of HAPI FHIR, and stand here with its words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from fhir_server import Request, Response, Server
from fhir_server.search.hashing import index_hash, java_set_order

JSON = [("Content-Type", "application/fhir+json")]
PEOPLE = [
    {
        "resourceType": "Patient",
        "id": f"p{number}",
        "gender": "female" if number % 2 else "male",
        "birthDate": f"19{number}0-01-01",
        "identifier": [{"system": f"urn:z{number}", "value": "X"}, {"use": "official", "value": str(number)}],
    }
    for number in range(7, 10)
]


@pytest.fixture
def server() -> Iterator[Server]:
    with Server.open(None) as server:
        for number, person in enumerate(PEOPLE):
            assert send(server, "PUT", f"Patient/{person['id']}", person).status == 201
            seen = {
                "resourceType": "Observation",
                "id": f"o{number}",
                "status": "final",
                "code": {"text": "K"},
                "subject": {"reference": f"Patient/{person['id']}"},
                "effectiveDateTime": f"2023-11-1{number}",
                "valueQuantity": {"value": 99 + number},
            }
            assert send(server, "PUT", f"Observation/o{number}", seen).status == 201
        yield server


def send(server: Server, method: str, target: str, body: Any = None, **headers: str) -> Response:
    given = {"Content-Type": "application/fhir+json"} | {key.replace("_", "-"): value for key, value in headers.items()}
    content = b"" if body is None else json.dumps(body).encode()
    return server.handle(Request(method, f"/fhir/{target}", tuple(given.items()), content))


def found(server: Server, query: str) -> list[str]:
    answer = send(server, "GET", query)
    assert answer.status == 200, answer.text
    return [entry["resource"]["id"] for entry in json.loads(answer.text).get("entry", [])]


def said(answer: Response) -> tuple[int, str]:
    return answer.status, json.loads(answer.text)["issue"][0]["diagnostics"]


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("Observation?date=2023-11-01&date=2023-11-02", 400, "HAPI-1922: Can not have multiple date range parameters"),
        ("Observation?date=ge2023&date=2023-11-02", 400, "HAPI-1922: Can not have multiple date range parameters"),
        ("Observation?date=ne2023&date=ge2023-05", 400, "HAPI-1923: Can not have multiple date range parameters"),
        ("Observation?_lastUpdated=le2023&_lastUpdated=lt2024", 400, "HAPI-1924: Can not have multiple date range"),
        ("Observation?date=2023-11-12%2010:15", 400, 'HAPI-1882: Invalid date/time format: "2023-11-12+10:15"'),
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
        ("Observation?value-quantity=1e2", ["o1"]),
        ("Observation?_include=Observation:date&_id=o0", ["o0"]),
        ("Observation?_count=1&_count=3&_sort=_id", ["o0"]),
    ],
)
def test_what_is_found(server: Server, query: str, ids: list[str]) -> None:
    assert found(server, query) == ids


def test_alternatives_of_one_code_come_in_the_order_of_their_hashes(server: Server) -> None:
    by_hash = sorted((7, 8, 9), key=lambda n: index_hash("Patient", "identifier", f"urn:z{n}", "X"))
    assert by_hash != [7, 8, 9], "no test of an order"
    assert found(server, "Patient?identifier=urn:z7|X,urn:z8|X,urn:z9|X") == [f"p{n}" for n in by_hash]


def test_the_order_of_a_java_set_beyond_128() -> None:
    numbers = list(range(1, 200))
    hashes = {number: 31 * (31 + 31) + number for number in numbers}
    assert java_set_order(numbers) == sorted(numbers, key=lambda n: (hashes[n] ^ hashes[n] >> 16) % 512)


def test_history_since_and_at(server: Server) -> None:
    now = json.loads(send(server, "GET", "Patient/p7").text)["meta"]["lastUpdated"].replace("+", "%2B")
    for query, total in (
        ("_history?_since=2100", 0),
        ("Patient/_history?_since=2020-01-01", 3),
        ("Patient/_history?_at=lt2020", 0),
        ("Patient/p7/_history?_at=ge2100", 1),  # the version that is current then
        (f"Patient/p7/_history?_since={now}", 1),
    ):
        bundle = json.loads(send(server, "GET", query).text)
        assert (query, bundle["total"], len(bundle.get("entry", []))) == (query, total, total)


def test_a_page_of_history_keeps_its_times(server: Server) -> None:
    first = json.loads(send(server, "GET", "Patient/_history?_since=2020&_count=2").text)
    (following,) = (one["url"] for one in first["link"] if one["relation"] == "next")
    assert following.endswith("/Patient/_history?_since=2020&_count=2&_offset=2")
    second = json.loads(send(server, "GET", following.partition("/fhir/")[2]).text)
    assert (second["total"], len(second["entry"])) == (3, 1)


def transact(server: Server, *entries: dict[str, Any]) -> Response:
    bundle = {"resourceType": "Bundle", "type": "transaction", "entry": list(entries)}
    return server.handle(Request("POST", "/fhir", JSON, json.dumps(bundle).encode()))


def entry(method: str, url: str, resource: dict[str, Any] | None = None, full_url: str = "") -> dict[str, Any]:
    made: dict[str, Any] = {"request": {"method": method, "url": url}}
    return made | ({"resource": resource} if resource else {}) | ({"fullUrl": full_url} if full_url else {})


def seen(reference: str) -> dict[str, Any]:
    return {"resourceType": "Observation", "status": "final", "code": {}, "subject": {"reference": reference}}


@pytest.mark.parametrize("full_url", ["", "http://x.example/fhir/Patient/7"])
@pytest.mark.parametrize("reference", ["Patient/7", "http://x.example/fhir/Patient/7"])
def test_an_entry_is_known_by_its_own_id(server: Server, full_url: str, reference: str) -> None:
    person = {"resourceType": "Patient", "id": "7", "active": True}
    answer = transact(server, entry("POST", "Patient", person, full_url), entry("POST", "Observation", seen(reference)))
    assert answer.status == 200, answer.text
    locations = [one["response"]["location"] for one in json.loads(answer.text)["entry"]]
    stored = json.loads(send(server, "GET", locations[1].partition("/_history")[0]).text)
    assert stored["subject"]["reference"] == locations[0].partition("/_history")[0]


@pytest.mark.parametrize("url", ["", "Foo", "Patient/x", "Observation"])
def test_where_an_entry_is_posted_to_does_not_matter(server: Server, url: str) -> None:
    answer = json.loads(transact(server, entry("POST", url, {"resourceType": "Patient", "active": True})).text)
    assert answer["entry"][0]["response"]["location"].startswith("Patient/")


def test_the_url_of_a_put_decides_about_the_id(server: Server) -> None:
    answer = transact(server, entry("PUT", "Patient/B", {"resourceType": "Patient", "id": "A", "active": True}))
    assert answer.status == 200
    assert send(server, "GET", "Patient/B").status == 200
    assert send(server, "GET", "Patient/A").status == 404


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([entry("POST", "Observation", seen("urn:uuid:nope"))], "HAPI-0541: Unable to satisfy placeholder ID "
         "urn:uuid:nope found in element named 'subject' within resource of type: Observation"),
        ([entry("POST", "Patient", PEOPLE[n], "urn:uuid:1") for n in (0, 1)],
         "HAPI-0534: Transaction bundle contains multiple resources with ID: urn:uuid:1"),
        ([entry("POST", "Patient", PEOPLE[0])] * 2,
         "HAPI-0535: Transaction bundle contains multiple resources with ID: Patient/p7"),
        ([entry("POST", "Patient")],
         "HAPI-0530: Missing required resource in Bundle.entry[0].resource for operation POST"),
        ([entry("PUT", "Patient/x")],
         "HAPI-0530: Missing required resource in Bundle.entry[0].resource for operation PUT"),
    ],
)  # fmt: skip
def test_what_a_transaction_refuses(server: Server, entries: list[dict[str, Any]], words: str) -> None:
    assert said(transact(server, *entries)) == (400, words)


def test_a_conditional_reference_is_resolved_in_any_write(server: Server) -> None:
    answer = send(server, "POST", "Observation", seen("Patient?identifier=urn:z7|X"))
    assert json.loads(answer.text)["subject"]["reference"] == "Patient/p7"
    nobody = 'HAPI-1091: Invalid match URL "Patient?identifier=nope" - No resources match this search'
    assert said(send(server, "POST", "Observation", seen("Patient?identifier=nope"))) == (404, nobody)


def test_a_condition_that_holds_an_address_is_no_address(server: Server) -> None:
    other = {"resourceType": "Patient", "id": "other", "identifier": [{"value": "http://x/Patient/a1"}]}
    assert send(server, "PUT", "Patient/other", other).status == 201
    mine = entry("PUT", "Patient/a1", {"resourceType": "Patient", "id": "a1"})
    answer = transact(server, mine, entry("PUT", "Observation/n", seen("Patient?identifier=http://x/Patient/a1")))
    assert answer.status == 200, answer.text
    assert json.loads(send(server, "GET", "Observation/n").text)["subject"]["reference"] == "Patient/other"


def test_a_reference_to_what_was_deleted(server: Server) -> None:
    assert send(server, "DELETE", "Observation/o0").status == 200
    assert send(server, "DELETE", "Patient/p7").status == 200
    status, words = said(send(server, "POST", "Observation", seen("Patient/p7")))
    assert status == 400
    assert words.startswith("HAPI-1096: Resource Patient/p7 is deleted, specified in path: Observation.subject")


def test_tags_and_profiles_are_sets(server: Server) -> None:
    tag = {"system": "urn:t", "code": "a"}
    meta = {"profile": ["http://p", "http://p"], "tag": [tag, {**tag, "display": "A"}], "security": [tag, tag]}
    answer = send(server, "PUT", "Patient/t", {"resourceType": "Patient", "id": "t", "meta": meta})
    stored = json.loads(answer.text)["meta"]
    assert (stored["profile"], stored["tag"], stored["security"]) == (["http://p"], [tag], [tag])


@pytest.mark.parametrize(
    ("number", "words", "column"),
    [
        ("1.", "Unexpected character ('}' (code 125)) in numeric value: Decimal point not followed by a digit", 3),
        ("1e", "Unexpected character ('}' (code 125)) in numeric value: Exponent indicator not followed by a digit", 3),
        ("-", "Unexpected character ('}' (code 125)) in numeric value: "
         "expected digit (0-9) to follow minus sign, for valid numeric value", 2),
        ("+1", "Unexpected character ('+' (code 43)) in numeric value: JSON spec does not allow numbers to have plus "
         "signs: enable `JsonReadFeature.ALLOW_LEADING_PLUS_SIGN_FOR_NUMBERS` to allow", 2),
        ("-Infinity",
         "Non-standard token '-Infinity': enable `JsonReadFeature.ALLOW_NON_NUMERIC_NUMBERS` to allow", 10),
    ],
)  # fmt: skip
def test_numbers_that_are_none_in_jacksons_words(server: Server, number: str, words: str, column: int) -> None:
    before = '{"resourceType":"Patient","x":'
    answer = server.handle(Request("POST", "/fhir/Patient", JSON, f"{before}{number}}}".encode()))
    place = f"\n at [line: 1, column: {len(before) + column}]"
    assert said(answer)[1].endswith(f"Failed to parse JSON encoded FHIR content: {words}{place}")


def json_patch(server: Server, *operations: dict[str, Any], **headers: str) -> Response:
    return send(server, "PATCH", "Patient/p7", list(operations), Content_Type="application/json-patch+json", **headers)


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        ({"op": "add", "path": "/foo", "value": 1}, "HAPI-1825: Unknown element 'foo' found during parse"),
        ({"op": "add", "path": "/identifier/0/foo", "value": 1}, "HAPI-1825: Unknown element 'foo' found during parse"),
        ({"op": "replace", "path": "/gender", "value": "banana"},
         'HAPI-1821: [element="gender"] Invalid attribute value "banana": '
         "Unknown AdministrativeGender code 'banana'"),
    ],
)  # fmt: skip
def test_what_a_json_patch_makes_is_parsed_strictly(server: Server, operation: dict[str, Any], words: str) -> None:
    expected = f"HAPI-1271: Failed to apply JSON patch to Patient/p7: {words}"
    assert said(json_patch(server, operation)) == (400, expected)


def test_a_patch_of_another_version_and_of_several(server: Server) -> None:
    test = {"op": "test", "path": "/gender", "value": "female"}
    old = "HAPI-0550: HAPI-0974: Version 7 is not the most recent version of this resource, unable to apply patch"
    assert said(json_patch(server, test, If_Match='W/"7"')) == (409, old)
    answer = send(server, "PATCH", "Patient?gender=female", [test], Content_Type="application/json-patch+json")
    status, words = said(answer)
    assert (status, words[:41]) == (412, "HAPI-0972: Failed to PATCH Patient with m")


@pytest.mark.parametrize(
    ("kind", "path", "more", "check"),
    [
        ("add", "Patient", {"name": "active", "value": True}, lambda p: p["active"] is True),
        ("replace", "Patient.identifier.where(value='7').use", {"value": "old"},
         lambda p: p["identifier"][1]["use"] == "old"),
        ("delete", "Patient.identifier.where(use = 'official')", {}, lambda p: len(p["identifier"]) == 1),
        ("delete", "Patient.identifier.first()", {}, lambda p: p["identifier"][0]["value"] == "7"),
        ("delete", "Patient.identifier.last()", {}, lambda p: p["identifier"][0]["value"] == "X"),
        ("add", "Patient.identifier[1]", {"name": "system", "value": "urn:s"},
         lambda p: p["identifier"][1]["system"] == "urn:s"),
        ("replace", "Patient.identifier.where(value='none').use", {"value": "old"}, None),
        ("replace", "Patient", {"value": "x"}, None),
        ("add", "Patient.identifier.select(x)", {"name": "use", "value": "old"}, None),
    ],
)  # fmt: skip
def test_fhirpath_patches(server: Server, kind: str, path: str, more: dict[str, Any], check: Any) -> None:
    types = {bool: "valueBoolean", str: "valueString"}
    parts = [{"name": "type", "valueCode": kind}, {"name": "path", "valueString": path}]
    parts += [{"name": name, types[type(value)]: value} for name, value in more.items()]
    body = {"resourceType": "Parameters", "parameter": [{"name": "operation", "part": parts}]}
    answer = send(server, "PATCH", "Patient/p7", body)
    if check is None:
        assert said(answer)[1].startswith("HAPI-2761: ")
    else:
        assert answer.status == 200, answer.text
        assert check(json.loads(answer.text))
