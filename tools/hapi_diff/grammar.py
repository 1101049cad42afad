"""Requests by weight: what agents, clients and apps send, from the likely to the hostile.

The values are those of the recorded data (tests/data/hapi/data.ndjson.xz), so that most searches find something. The
same seed gives the same requests. `{last}` in a URL stands for the resource that the server at hand created last.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from tools.hapi_diff.client import Case

Json = dict[str, Any]
TYPES = ("Observation", "Condition", "MedicationRequest", "Procedure", "Patient", "ServiceRequest", "Encounter")
CODES = ("MG", "K", "GLU", "A1C", "NA", "BP")
DATES = (
    "2023-11-12",
    "2023-11-13",
    "2023-10",
    "2023",
    "2022-08-01",
    "2023-11-12T10:00:00Z",
    "2023-11-01T00:00:00+00:00",
)
NAMES = ("smith", "S", "Bones", "a", "mar", "Jones", "O'Brien", "Ångström")
SYSTEMS = ("http://loinc.org", "http://terminology.hl7.org/CodeSystem/observation-category", "urn:obs", "http://nope")
ODD = (
    "",
    " ",
    "%",
    "_",
    "\\",
    "\\,",
    "\\|",
    "$",
    "|",
    "||",
    "a|b|c|d",
    "'",
    '"',
    "<b>",
    "&",
    "é",
    "null",
    "-1",
    "1e400",
    "0x1F",
    "2023-13-45",
    "../..",
    "a" * 300,
)


class Grammar:
    """A source of requests; `resources` are those that both servers hold."""

    def __init__(self, seed: int, resources: list[Json]) -> None:
        self.random = random.Random(seed)
        self.by_type: dict[str, list[Json]] = {}
        for resource in resources:
            self.by_type.setdefault(resource["resourceType"], []).append(resource)

    def case(self, tier: str) -> Case:
        """One request of a tier: likely, rarer or hostile."""
        rule, make = self.weighted(_TIERS[tier])
        made = make(self)
        return Case(made.method, made.url, made.headers, made.body, rule, tier)

    def weighted(self, choices: dict[tuple[str, Callable[[Grammar], Case]], int]) -> tuple[str, Any]:
        """One of the keys by its weight."""
        return self.random.choices(list(choices), list(choices.values()))[0]

    def pick(self, *items: Any) -> Any:
        """One of the items."""
        return self.random.choice(items)

    def some(self, kind: str) -> Json:
        """A resource of a type that is there."""
        return self.random.choice(self.by_type[kind])

    def patient(self) -> str:
        """The id of a patient, now and then of none."""
        return "S0000000" if self.random.random() < 0.03 else str(self.some("Patient")["id"])

    def date(self) -> str:
        """A date with a prefix as searches have them."""
        prefix = self.random.choices(("", "ge", "le", "gt", "lt", "eq"), (4, 5, 4, 2, 2, 1))[0]
        return prefix + self.pick(*DATES)

    def query(self, pairs: list[tuple[str, str]]) -> str:
        """The query string, its values escaped as clients do."""
        return "&".join(
            f"{name}={quote(value, safe='/:,|' if self.random.random() < 0 else '/:,')}" for name, value in pairs
        )


def _likely_pairs(g: Grammar, kind: str) -> list[tuple[str, str]]:
    """One to three parameters that fit a type."""
    patient = ("patient", g.pick("", "Patient/") + g.patient())
    known: dict[str, list[tuple[str, str]]] = {
        "Observation": [
            patient,
            ("subject", f"Patient/{g.patient()}"),
            ("code", g.pick(*CODES)),
            ("code", f"http://loinc.org|{g.pick(*CODES)}"),
            ("code", ",".join(g.random.sample(CODES, 2))),
            ("date", g.date()),
            ("category", g.pick("laboratory", "vital-signs")),
            ("status", "final"),
            ("value-quantity", g.pick("gt", "lt", "ge", "le", "") + g.pick("2", "4.5", "100")),
        ],
        "Condition": [
            patient,
            ("code", g.pick("E11", "I10", "X")),
            ("clinical-status", "active"),
            ("category", "problem-list-item"),
            ("recorded-date", g.date()),
            ("onset-date", g.date()),
        ],
        "MedicationRequest": [
            patient,
            ("status", g.pick("active", "completed")),
            ("authoredon", g.date()),
            ("intent", "order"),
            ("code", "x"),
        ],
        "Procedure": [patient, ("date", g.date()), ("status", "completed"), ("code", "x")],
        "Patient": [
            ("name", g.pick(*NAMES)),
            ("family", g.pick(*NAMES)),
            ("given", g.pick(*NAMES)),
            ("birthdate", g.date()),
            ("birthdate", g.some("Patient").get("birthDate", "1950-01-01")),
            ("gender", g.pick("male", "female")),
            ("identifier", g.patient()),
            ("_id", g.patient()),
        ],
        "ServiceRequest": [patient, ("status", "active"), ("authored", g.date()), ("category", "x"), ("code", "x")],
        "Encounter": [patient, ("date", g.date()), ("status", "finished"), ("class", "AMB")],
    }
    count = g.random.choices((1, 2, 3), (4, 5, 2))[0]
    return list(dict(g.random.sample(known[kind], min(count, len(known[kind])))).items())


def _search(g: Grammar) -> Case:
    kind = g.random.choices(TYPES, (8, 3, 3, 2, 5, 2, 1))[0]
    pairs = _likely_pairs(g, kind)
    if g.random.random() < 0.4:
        pairs.append(("_count", g.pick("1", "5", "10", "20", "50", "100", "1000")))
    if g.random.random() < 0.3:
        pairs.append(
            (
                "_sort",
                g.pick("-date", "date", "_lastUpdated", "-_lastUpdated", "_id")
                if kind in ("Observation", "Procedure", "Encounter")
                else g.pick("_id", "-_lastUpdated"),
            )
        )
    if g.random.random() < 0.1:
        pairs.append(("_format", "json"))
    if g.random.random() < 0.05:
        return Case("POST", f"{kind}/_search", {"Content-Type": "application/x-www-form-urlencoded"}, g.query(pairs))
    return Case("GET", f"{kind}?{g.query(pairs)}")


def _read(g: Grammar) -> Case:
    kind = g.pick(*TYPES)
    found = g.some(kind)["id"] if g.random.random() < 0.9 else g.pick("nope", "S1", "99999999")
    tail = g.random.choices(
        ("", "/_history/1", "/_history", "/_history/2", "?_summary=true", "?_elements=id"), (8, 1, 1, 1, 1, 1)
    )[0]
    return Case("GET", f"{kind}/{found}{tail}")


def observation(g: Grammar) -> Json:
    """An observation as agents post them."""
    return {
        "resourceType": "Observation",
        "status": "final",
        "category": [{"coding": [{"system": SYSTEMS[1], "code": "vital-signs", "display": "Vital Signs"}]}],
        "code": {"text": "BP"},
        "effectiveDateTime": "2023-11-13T10:15:00+00:00",
        "valueString": "118/77 mmHg",
        "subject": {"reference": f"Patient/{g.patient()}"},
    }


def medication_request(g: Grammar) -> Json:
    """An order of a drug."""
    return {
        "resourceType": "MedicationRequest",
        "medicationCodeableConcept": {
            "coding": [{"system": "http://hl7.org/fhir/sid/ndc", "code": "0338-1715-40", "display": "Magnesium"}]
        },
        "authoredOn": "2023-11-13T10:15:00+00:00",
        "dosageInstruction": [
            {"route": "IV", "doseAndRate": [{"doseQuantity": {"value": g.pick(1, 2, 2.50), "unit": "g"}}]}
        ],
        "status": "active",
        "intent": "order",
        "subject": {"reference": f"Patient/{g.patient()}"},
    }


def service_request(g: Grammar) -> Json:
    """An order of a test."""
    return {
        "resourceType": "ServiceRequest",
        "code": {"coding": [{"system": "http://loinc.org", "code": "2823-3"}]},
        "authoredOn": "2023-11-13T10:15:00+00:00",
        "status": "active",
        "intent": "order",
        "priority": "stat",
        "subject": {"reference": f"Patient/{g.patient()}"},
        "occurrenceDateTime": "2023-11-14T08:00:00+00:00",
        "note": g.pick({"text": "as is"}, [{"text": "list"}], {"text": 'quote " and \\ slash'}),
    }


def _create(g: Grammar) -> Case:
    resource = g.pick(observation, medication_request, service_request)(g)
    return Case.with_json("POST", resource["resourceType"], resource)


def _update(g: Grammar) -> Case:
    kind = g.pick("Patient", "Observation", "Condition")
    resource = json.loads(json.dumps(g.some(kind)))
    if kind == "Patient":
        resource["active"] = g.pick(True, False)
    else:
        resource["note"] = [{"text": g.pick("a", "b")}]
    return Case.with_json("PUT", f"{kind}/{resource['id']}", resource)


def _patch(g: Grammar) -> Case:
    patient = g.patient()
    operation = g.pick(
        {"op": "replace", "path": "/gender", "value": g.pick("male", "female")},
        {"op": "add", "path": "/active", "value": True},
        {"op": "remove", "path": "/maritalStatus"},
    )
    return Case.with_json(
        "PATCH", f"Patient/{patient}", [operation], headers={"Content-Type": "application/json-patch+json"}
    )


def _delete(g: Grammar) -> Case:
    return Case("DELETE", g.pick("{last}", "{last}", "Observation/nope", f"Patient/{g.patient()}"))


def _read_last(g: Grammar) -> Case:
    return Case("GET", g.pick("{last}", "{last}/_history", "{last}/_history/1"))


def _mistake(g: Grammar) -> Case:
    """What agents get wrong: names, types, dates, comparisons, ids."""
    patient = g.patient()
    return g.pick(
        Case("GET", f"Observation?patient={patient}&code={g.pick(*CODES)}&date=>{g.pick(*DATES)}"),
        Case("GET", f"Observation?patient={patient}&date=<={g.pick(*DATES)}"),
        Case("GET", f"Observation?patient={patient}&value-quantity=>{g.pick('2', '5.4')}"),
        Case("GET", f"Observation?patientId={patient}"),
        Case("GET", f"Observation?patient={patient}&loinc=K"),
        Case("GET", f"Patient?mrn={patient}"),
        Case("GET", f"Patient?dob={g.pick(*DATES)}"),
        Case("GET", f"Patient?birthdate={g.pick('1950/01/02', '01-02-1950', 'Jan%201%201950', '19500102')}"),
        Case(
            "GET",
            f"Observation?patient={patient}&date={g.pick('20231112', '2023-11-12%2010:00', 'yesterday', '2023-11-31')}",
        ),
        Case(
            "GET", f"Observation?patient={patient}&_sort={g.pick('-effectiveDateTime', 'date:desc', 'desc', '-issued')}"
        ),
        Case("GET", f"Observation?patient={patient}&_count={g.pick('0', '-1', 'ten', '5000')}"),
        Case("GET", f"Observations?patient={patient}"),
        Case("GET", f"observation?patient={patient}"),
        Case("GET", f"Patient/{g.pick('Patient/', '')}{patient}/Observation"),
        Case("GET", f"Observation?subject={patient}&code={g.pick('K%20', '%20K', 'k')}"),
        Case("GET", f"Patient?given={g.pick('Peter', 'a')}&family={g.pick(*NAMES[:3])}&birthdate=1932-12-29"),
        Case.with_json("POST", "Observation", {**observation(g), "resourceType": "Obs"}),
        Case.with_json("POST", "Observation", {k: v for k, v in observation(g).items() if k != "resourceType"}),
        Case.with_json(
            "POST", "MedicationRequest", {**medication_request(g), "status": g.pick("Active", "ordered", "")}
        ),
        Case.with_json(
            "POST",
            "ServiceRequest",
            {
                **service_request(g),
                "subject": {"reference": g.pick(patient, "Patient/", "Patient/S0", f"patient/{patient}")},
            },
        ),
        Case.with_json(
            "POST",
            "Observation",
            {**observation(g), "effectiveDateTime": g.pick("2023-11-13 10:15", "2023-11-13T10:15", "now", 20231113)},
        ),
        Case.with_json("POST", "Observation", json.dumps(observation(g))[: -g.pick(1, 5, 30)]),
        Case.with_json("POST", "Observation", json.dumps(observation(g)).replace('"', "'")),
        Case.with_json("POST", "ServiceRequest", json.dumps(service_request(g)).replace("stat", "sta\\t")),
        Case.with_json(
            "POST", "Observation", {**observation(g), "valueQuantity": {"value": g.pick("5.4", "high", 5.40)}}
        ),
        Case.with_json("PUT", "Observation", observation(g)),
        Case.with_json("PUT", f"Patient/{patient}", {"resourceType": "Patient"}),
    )


def _rarer_search(g: Grammar) -> Case:
    kind = g.random.choices(TYPES, (8, 3, 3, 2, 5, 2, 1))[0]
    pairs = _likely_pairs(g, kind)
    extra: list[tuple[str, str]] = [
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
        ("_id", ",".join(str(g.some(kind)["id"]) for _ in range(3))),
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
    pairs += g.random.sample(extra, g.random.choices((1, 2), (4, 1))[0])
    g.random.shuffle(pairs)
    return Case("GET", f"{kind}?{g.query(pairs)}")


def _operation(g: Grammar) -> Case:
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


def _conditional(g: Grammar) -> Case:
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


def _bundle(g: Grammar) -> Case:
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


def _hostile_search(g: Grammar) -> Case:
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


def _hostile_body(g: Grammar) -> Case:
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


def _hostile_path(g: Grammar) -> Case:
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


_TIERS: dict[str, dict[tuple[str, Callable[[Grammar], Case]], int]] = {
    "likely": {
        ("search", _search): 60,
        ("read", _read): 8,
        ("create", _create): 8,
        ("update", _update): 3,
        ("patch", _patch): 2,
        ("delete", _delete): 2,
        ("read back", _read_last): 3,
        ("mistake", _mistake): 14,
    },
    "rarer": {
        ("search", _rarer_search): 70,
        ("operation", _operation): 10,
        ("conditional", _conditional): 10,
        ("bundle", _bundle): 10,
    },
    "hostile": {("search", _hostile_search): 50, ("body", _hostile_body): 40, ("path", _hostile_path): 10},
}
