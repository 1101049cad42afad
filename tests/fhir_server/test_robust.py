"""Whatever is sent, the answer is no 500: named bad input, and generated requests over every interaction."""

from __future__ import annotations

import json
import time
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fhir_server import Request, Response, Server

JSON = [("Content-Type", "application/fhir+json")]
PATCH = [("Content-Type", "application/json-patch+json")]
NASTY = (
    "",
    "%",
    "_",
    "\\",
    "'",
    '"',
    "';DROP TABLE resources--",
    "\x00",
    "\ud800",
    "a" * 5000,
    "..",
    "../..",
    "1e999999",
    "9" * 400,
    "-0",
    "NaN",
    "ge",
    "|||",
    "$$",
    ",,,",
    "a\\",
    "Patient/",
    "#x",
    "urn:uuid:x",
    "0000",
    "9999-99-99",
    "2024-02-30T25:61:61Z",
    "+",
    "\u202e",
    "(((((",
)


@pytest.fixture(scope="module")
def server():
    with Server.open(None) as server:
        server.load(
            json.dumps(resource)
            for resource in (
                {"resourceType": "Patient", "id": "a", "name": [{"family": "Smith"}], "birthDate": "1970-01-01"},
                {"resourceType": "Observation", "id": "o", "status": "final", "subject": {"reference": "Patient/a"}},
                {"resourceType": "Location", "id": "l", "partOf": {"reference": "Location/m"}},
                {"resourceType": "Location", "id": "m", "partOf": {"reference": "Location/l"}},
            )
        )
        yield server


def held(answer: Response) -> Response:
    assert 200 <= answer.status < 500 or answer.status == 501, answer.text
    if answer.body:
        json.loads(answer.text)
    return answer


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/fhir/Patient?_count=-5", 200),
        ("/fhir/Patient?_count=99999999999999999999", 400),
        ("/fhir/Patient/../../etc/passwd", 400),
        ("/fhir/Patient/%2e%2e", 404),
        ("/fhir/Location/l?_summary=true", 200),
        ("/fhir/Location?_include:iterate=Location:partof&_revinclude:iterate=Location:partof", 200),
        ("/fhir/Location?partof.partof.partof.partof.partof=l", 200),
        ("/fhir/Location?" + "partof." * 50 + "name=x", 400),
        ("/fhir/Patient?name=" + quote("100%_\\';--"), 200),
        ("/fhir/Patient?name=%ff%fe%00", 200),
        ("/fhir/Patient?_filter=" + "(" * 5000, 400),
        ("/fhir/Patient?" + "&".join(f"name={number}" for number in range(10_000)), 400),
        ("/fhir/Patient?name=" + ",".join("x" * 3 for _ in range(10_000)), 400),
        ("/elsewhere", 404),
    ],
    ids=lambda value: str(value)[:50],
)
def test_named_bad_targets(target: str, status: int, server: Server) -> None:
    assert held(server.handle(Request("GET", target))).status == status


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 200_000,
        b'{"resourceType":"Patient","contact":' + b"[" * 3000 + b"]" * 3000 + b"}",
        b'{"resourceType":"Patient","name":[{"family":"\xff\xfe"}]}',
        b'{"resourceType":"Patient","name":[{"family":"\\u0000"}]}',
        b'{"resourceType":"Patient","name":[{"family":"\\ud800"}]}',
        b'{"resourceType":"Observation","valueQuantity":{"value":1e999999999}}',
        b'{"resourceType":"Observation","valueQuantity":{"value":' + b"9" * 5000 + b"}}",
        b'{"resourceType":"Observation","valueInteger":' + b"9" * 500 + b"}",
        b'{"resourceType":"Patient","id":"..","name":[{"family":"x"}]}',
        b"",
        b"\x00",
        b"null",
    ],
    ids=range(12),
)
def test_named_bad_bodies(body: bytes, server: Server) -> None:
    kind = "Observation" if b"Observation" in body else "Patient"
    held(server.handle(Request("POST", f"/fhir/{kind}", JSON, body)))
    held(server.handle(Request("PUT", f"/fhir/{kind}/..", JSON, body)))
    held(server.handle(Request("PATCH", "/fhir/Patient/a", PATCH, body)))
    held(server.handle(Request("POST", "/fhir", JSON, body)))


def test_half_of_a_surrogate_pair_becomes_a_replacement_character() -> None:
    request = Request("G\ud800", "/fhir/\ud800?a=\udfff", [("If-Match", "\ud83d")])
    assert (request.method, request.target) == ("G\ufffd\ufffd\ufffd", "/fhir/\ufffd\ufffd\ufffd?a=\ufffd\ufffd\ufffd")
    assert request.header("if-match") == "\ufffd\ufffd\ufffd"


def test_a_body_over_50_megabytes_is_413(server: Server) -> None:
    body = b'{"resourceType":"Patient","name":[{"family":"' + b"x" * (50 * 1024 * 1024) + b'"}]}'
    assert server.handle(Request("POST", "/fhir/Patient", JSON, body)).status == 413


NAMES = st.sampled_from(
    [
        "_id",
        "_lastUpdated",
        "_tag",
        "_profile",
        "_security",
        "_source",
        "_list",
        "_has:Observation:patient:code",
        "_filter",
        "_sort",
        "_count",
        "_offset",
        "_total",
        "_summary",
        "_elements",
        "_include",
        "_revinclude",
        "_include:iterate",
        "_text",
        "_contained",
        "_getpages",
        "_format",
        "_pretty",
        "name",
        "name:exact",
        "name:contains",
        "family",
        "birthdate",
        "gender",
        "gender:not",
        "identifier",
        "organization",
        "organization.name",
        "subject",
        "subject:Patient.name",
        "code",
        "code:text",
        "value-quantity",
        "code-value-quantity",
        "date",
        "near",
        "url:above",
        "probability",
        ":missing",
        "birthdate:missing",
        "a.b.c",
        "_type",
        "start",
    ]
)
VALUES = st.one_of(
    st.sampled_from(NASTY),
    st.text(max_size=20),
    st.builds(
        "{}{}".format, st.sampled_from(["", "eq", "ne", "gt", "sa", "zz"]), st.sampled_from(["2020", "2020-01-01", "5"])
    ),
)
SEGMENTS = st.one_of(
    st.sampled_from(
        [
            "Patient",
            "Observation",
            "Location",
            "Foo",
            "_search",
            "_history",
            "metadata",
            "$everything",
            "$nope",
            "a",
            "o",
            "l",
            "x",
            "1",
            "..",
            ".",
            "%2e",
        ]
    ),
    st.text(max_size=6),
)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.sampled_from(NASTY), st.text(max_size=8))
KEYS = st.one_of(
    st.sampled_from(
        [
            "resourceType",
            "id",
            "meta",
            "name",
            "family",
            "given",
            "birthDate",
            "status",
            "code",
            "coding",
            "subject",
            "reference",
            "contained",
            "extension",
            "url",
            "valueQuantity",
            "value",
            "text",
            "div",
            "identifier",
            "type",
            "entry",
            "request",
            "method",
            "op",
            "path",
            "_birthDate",
        ]
    ),
    st.text(max_size=5),
)
TREES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5), max_leaves=15
)
METHODS = st.sampled_from(("GET", "GET", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "FOO"))
HEADERS = st.sampled_from(
    (JSON, PATCH, [], [("Content-Type", "application/x-www-form-urlencoded")], [*JSON, ("If-Match", 'W/"x"')])
)


@st.composite
def requests(draw: st.DrawFn) -> Request:
    path = "/".join(quote(part.encode("utf-8", "replace")) for part in draw(st.lists(SEGMENTS, max_size=4)))
    pairs = draw(st.lists(st.tuples(NAMES, VALUES), max_size=4))
    query = "&".join(f"{name}={quote(value.encode('utf-8', 'replace'))}" for name, value in pairs)
    headers = list(draw(HEADERS))
    extra = draw(st.sampled_from(("", "If-None-Exist", "If-None-Match", "If-Modified-Since", "Prefer", "X-Request-ID")))
    if extra:
        headers.append((extra, draw(st.sampled_from(("name=x", 'W/"1"', "return=OperationOutcome", "Sat, 99", "é")))))
    return Request(draw(METHODS), f"/fhir/{path}?{query}", headers, draw(bodies()))


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    tree = draw(TREES)
    if isinstance(tree, dict) and draw(st.booleans()):
        tree = {**tree, "resourceType": draw(st.sampled_from(("Patient", "Observation", "Bundle", "Parameters")))}
    if draw(st.booleans()):
        entries = [{"resource": tree, "request": {"method": draw(METHODS), "url": draw(SEGMENTS)}}]
        tree = {"resourceType": "Bundle", "type": draw(st.sampled_from(("batch", "transaction"))), "entry": entries}
    return json.dumps(tree).encode("utf-8", "replace") if draw(st.integers(0, 9)) else draw(st.binary(max_size=30))


RELAXED = settings(database=None, suppress_health_check=list(HealthCheck))


@settings(RELAXED, max_examples=150)
@given(request=requests())
def test_generated_requests(request: Request, server: Server) -> None:
    held(server.handle(request))


@pytest.mark.long
def test_generated_requests_for_four_minutes(server: Server) -> None:
    end = time.monotonic() + 240

    @settings(RELAXED, max_examples=2000)
    @given(request=requests())
    def drive(request: Request) -> None:
        held(server.handle(request))

    while time.monotonic() < end:
        drive()
