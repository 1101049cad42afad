"""Rarer requests, modifiers, chains, operations, conditional writes and Bundles, and hostile ones."""

from __future__ import annotations

import json
from urllib.parse import quote

from tools.hapi_diff.client import Case
from tools.hapi_diff.values import (
    CODES,
    DATES,
    NAMES,
    ODD,
    TYPES,
    Values,
    likely_pairs,
    medication_request,
    observation,
    service_request,
)


def _rarer_search(g: Values) -> Case:
    kind = g.random.choices(TYPES, (8, 3, 3, 2, 5, 2, 1))[0]
    pairs = likely_pairs(g, kind)
    pairs += g.random.sample(_rarer_pairs(g, kind), g.random.choices((1, 2), (4, 1))[0])
    g.random.shuffle(pairs)
    return Case("GET", f"{kind}?{g.query(pairs)}")


def _rarer_pairs(g: Values, kind: str) -> list[tuple[str, str]]:
    return [
        ("_include", f"{kind}:{g.pick('patient', 'subject', 'encounter', '*', 'nope')}"),
        ("_include", "*"),
        ("_revinclude", g.pick("Observation:patient", "Condition:subject", "Provenance:target", "*")),
        ("_elements", g.pick("id", "code,status", "subject", f"{kind}.id", "*", "value")),
        ("_summary", g.pick("true", "count", "text", "data", "false", "True", "x")),
        ("_total", g.pick("accurate", "none", "estimate")),
        ("_sort", g.pick("status", "-status,date", "code", "-code", "patient", "nope", "-name", "family,given")),
        ("_count", g.pick("0", "3", "999999999", "2147483648")),
        ("_offset", g.pick("0", "2", "500")),
        ("_lastUpdated", g.pick("gt2020", "lt2030", "ge2023-01-01T00:00:00Z")),
        ("_tag", "a"),
        ("_pretty", g.pick("true", "false")),
        ("_security", "x"),
        ("_profile", "http://nope"),
        ("_id", ",".join(str(g.resource_of(kind)["id"]) for _ in range(3))),
        ("_has:Observation:patient:code", "K"),
        ("_filter", "status eq final"),
        ("_list", "x"),
        ("_query", "x"),
        ("_language", "en"),
        ("_score", "1"),
        ("_type", "Patient"),
        ("_text", "x"),
        ("_source", "x"),
        ("identifier", g.pick("|", "|x", "urn:obs|V1", "V1", "a|")),
        ("patient.name", g.pick(*NAMES)),
        ("patient.gender", "male"),
        ("subject:Patient.family", g.pick(*NAMES)),
        ("patient.nope", "x"),
        ("patient:Patient", g.patient()),
        ("patient:contains", "x"),
        ("patient:missing", g.pick("true", "false")),
        ("patient:identifier", "x"),
        ("code:not", g.pick(*CODES)),
        ("code:text", "mag"),
        ("code:in", "http://nope/vs"),
        ("code:not-in", "http://nope/vs"),
        ("code:above", "K"),
        ("code:below", "K"),
        ("code:missing", g.pick("true", "false")),
        ("status:not", "final"),
        ("date", g.pick("sa", "eb", "ap", "ne") + g.pick(*DATES)),
        ("date", f"{g.pick(*DATES)},{g.pick(*DATES)}"),
        ("date:missing", "true"),
        (
            "value-quantity",
            g.pick("sa5", "eb5", "ap5", "ne5", "5||mg/dL", "5|http://unitsofmeasure.org|mg/dL", "gt5|||"),
        ),
        ("code-value-quantity", g.pick("K$gt4", "K", "http://loinc.org|K$4.2", "K$x")),
        ("name:exact", g.pick(*NAMES)),
        ("name:contains", g.pick(*NAMES)),
        ("family:missing", "false"),
        ("phone", "5"),
        ("address-city", "a"),
    ]


def _operation(g: Values) -> Case:
    patient = g.patient()
    return g.pick(
        Case("GET", f"Patient/{patient}/$everything"),
        Case("GET", f"Patient/{patient}/$everything?_count=5"),
        Case("GET", f"Patient/{patient}/$everything?_type=Observation,Condition"),
        Case.with_json("POST", f"Patient/{patient}/$everything", {"resourceType": "Parameters"}),
        Case("GET", f"Patient/{patient}/$nope"),
        Case("GET", f"Patient/{patient}/$meta"),
        Case("GET", "Observation/$lastn?max=1&patient=" + patient),
        Case.with_json("POST", "Observation/$validate", observation(g)),
        Case("GET", "_history?_count=3"),
        Case("GET", "Patient/_history?_count=5"),
        Case("GET", "_history?_since=2030-01-01T00:00:00Z"),
        Case("GET", f"Patient/{patient}/_history?_at=gt2020"),
        Case("HEAD", f"Patient/{patient}"),
        Case("OPTIONS", "Patient"),
    )


def _conditional(g: Values) -> Case:
    patient = g.patient()
    person = {
        "resourceType": "Patient",
        "identifier": [{"system": "urn:diff", "value": str(g.random.randint(1, 5))}],
        "active": g.pick(True, False),
    }
    query = "identifier=urn:diff%7C" + person["identifier"][0]["value"]
    return g.pick(
        Case.with_json("POST", "Patient", person, headers={"If-None-Exist": query}),
        Case.with_json("PUT", f"Patient?{query}", person),
        Case.with_json("PUT", f"Patient?gender={g.pick('male', 'other')}", person),
        Case("DELETE", f"Patient?{query}"),
        Case("DELETE", "Observation?code=nope"),
        Case.with_json(
            "PATCH",
            f"Patient?{query}",
            [{"op": "add", "path": "/active", "value": True}],
            headers={"Content-Type": "application/json-patch+json"},
        ),
        Case("GET", f"Patient/{patient}", {"If-None-Match": g.pick('W/"1"', 'W/"9"')}),
        Case("GET", f"Patient/{patient}", {"If-Modified-Since": "Tue, 01 Jan 2030 00:00:00 GMT"}),
        Case.with_json(
            "PUT", f"Patient/{patient}", {"resourceType": "Patient", "id": patient}, headers={"If-Match": 'W/"99"'}
        ),
    )


def _bundle(g: Values) -> Case:
    kind = g.pick("transaction", "batch")
    patient = f"urn:uuid:00000000-0000-4000-8000-{g.random.randint(0, 10**12 - 1):012d}"
    entries = [
        {
            "fullUrl": patient,
            "resource": {"resourceType": "Patient", "active": True},
            "request": {"method": "POST", "url": "Patient"},
        },
        {
            "resource": {**observation(g), "subject": {"reference": patient}},
            "request": {"method": "POST", "url": "Observation"},
        },
        {"resource": observation(g), "request": {"method": "POST", "url": "Observation"}},
        {"request": {"method": "GET", "url": f"Patient/{g.patient()}"}},
        {"request": {"method": "GET", "url": f"Observation?patient={g.patient()}&_count=2"}},
        {"request": {"method": "DELETE", "url": f"Observation/{g.pick('nope', 'nope2')}"}},
        {
            "resource": {"resourceType": "Patient", "id": "diff1", "active": g.pick(True, False)},
            "request": {"method": "PUT", "url": "Patient/diff1"},
        },
    ]
    chosen = entries[:2] if g.random.random() < 0.4 else g.random.sample(entries[2:], g.random.randint(1, 4))
    return Case.with_json("POST", "", {"resourceType": "Bundle", "type": kind, "entry": chosen})


def _hostile_search(g: Values) -> Case:
    kind = g.pick(*TYPES)
    name = g.pick(
        "code",
        "date",
        "patient",
        "value-quantity",
        "name",
        "_id",
        "_sort",
        "_count",
        "_include",
        "identifier",
        "_lastUpdated",
        "birthdate",
        "_has:x",
        "a.b.c",
        "code.",
        ":x",
        "subject:",
        "_elements",
        "_summary",
        "_format",
    )
    value = g.pick(*ODD)
    raw = (
        value
        if g.random.random() < 0.1 and value.isascii() and not set(value) & set(' "<>\\^`{|}#%')
        else quote(value, safe="")
    )
    return Case("GET", f"{kind}?{quote(name, safe=':._-')}={raw}")


def _hostile_body(g: Values) -> Case:
    resource = g.pick(observation, medication_request, service_request)(g)
    kind = resource["resourceType"]
    key = g.random.choice(list(resource))
    change = g.pick(
        None, [], {}, "", " ", 5, True, [[]], [None], {"x": 1}, "\u0000", {"extension": [{"url": "u"}]}, [{}], 1.50
    )
    text = json.dumps({**resource, key: change})
    cut = g.random.randint(1, len(text))
    return g.pick(
        Case.with_json("POST", kind, text),
        Case.with_json("POST", kind, text),
        Case.with_json("POST", kind, text[:cut]),
        Case.with_json("POST", kind, text[:cut] + g.pick("}", "]", ",", '"', "x") + text[cut:]),
        Case(
            "POST",
            kind,
            {"Content-Type": g.pick("text/plain", "application/xml", "application/x-www-form-urlencoded")},
            text,
        ),
        Case.with_json("PUT", f"{kind}/{g.pick('1', 'a b', 'x' * 70, '%00', 'ok-id')}", {**resource, "id": "ok-id"}),
        Case.with_json(
            "PATCH",
            f"Patient/{g.patient()}",
            g.pick("[]", "{}", "x", '[{"op": "nope"}]', '[{"op":"replace","path":"gender","value":"x"}]'),
            headers={"Content-Type": "application/json-patch+json"},
        ),
    )


def _hostile_path(g: Values) -> Case:
    return Case(
        g.pick("GET", "GET", "POST", "PUT", "DELETE", "PATCH"),
        g.pick(
            "Patient/../Patient",
            "Patient//x",
            "/",
            "Patient/a/b/c",
            "Patient/%2e%2e",
            "$",
            "_search",
            "Patient/_search/x",
            "metadata/x",
            "_history/1",
            "Patient/S1/_history/x",
            "Patient/é".encode().decode("latin-1").replace("Ã©", "%C3%A9"),
            "patient",
            "PATIENT/1",
            "Foo",
            "Foo/1",
            "?x=y",
            "?_getpages=nope",
            "Patient/" + "9" * 30,
        ),
        {"Content-Type": "application/fhir+json"},
        None,
    )


RARER = {
    ("search", _rarer_search): 70,
    ("operation", _operation): 10,
    ("conditional", _conditional): 10,
    ("bundle", _bundle): 10,
}
HOSTILE = {("search", _hostile_search): 50, ("body", _hostile_body): 40, ("path", _hostile_path): 10}
"""Kinds of requests, with their weights."""
