"""Likely requests: searches, reads, creates and updates as agents send them, and the mistakes they make."""

from __future__ import annotations

import json

from tools.hapi_diff.client import Case
from tools.hapi_diff.values import (
    CODES,
    DATES,
    NAMES,
    TYPES,
    Values,
    likely_pairs,
    medication_request,
    observation,
    service_request,
)


def _search(g: Values) -> Case:
    kind = g.random.choices(TYPES, (8, 3, 3, 2, 5, 2, 1))[0]
    pairs = likely_pairs(g, kind)
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


def _read(g: Values) -> Case:
    kind = g.pick(*TYPES)
    name = g.resource_of(kind)["id"] if g.random.random() < 0.9 else g.pick("nope", "S1", "99999999")
    tail = g.random.choices(
        ("", "/_history/1", "/_history", "/_history/2", "?_summary=true", "?_elements=id"), (8, 1, 1, 1, 1, 1)
    )[0]
    return Case("GET", f"{kind}/{name}{tail}")


def _create(g: Values) -> Case:
    resource = g.pick(observation, medication_request, service_request)(g)
    return Case.with_json("POST", resource["resourceType"], resource)


def _update(g: Values) -> Case:
    kind = g.pick("Patient", "Observation", "Condition")
    resource = json.loads(json.dumps(g.resource_of(kind)))
    if kind == "Patient":
        resource["active"] = g.pick(True, False)
    else:
        resource["note"] = [{"text": g.pick("a", "b")}]
    return Case.with_json("PUT", f"{kind}/{resource['id']}", resource)


def _patch(g: Values) -> Case:
    patient = g.patient()
    operation = g.pick(
        {"op": "replace", "path": "/gender", "value": g.pick("male", "female")},
        {"op": "add", "path": "/active", "value": True},
        {"op": "remove", "path": "/maritalStatus"},
    )
    return Case.with_json(
        "PATCH", f"Patient/{patient}", [operation], headers={"Content-Type": "application/json-patch+json"}
    )


def _delete(g: Values) -> Case:
    return Case("DELETE", g.pick("{last}", "{last}", "Observation/nope", f"Patient/{g.patient()}"))


def _read_last(g: Values) -> Case:
    return Case("GET", g.pick("{last}", "{last}/_history", "{last}/_history/1"))


def _mistake(g: Values) -> Case:
    """What agents get wrong: names, types, dates, comparisons, ids."""
    patient = g.patient()
    return g.pick(
        Case("GET", f"Observation?patient={patient}&code={g.pick(*CODES)}&date=%3E{g.pick(*DATES)}"),
        Case("GET", f"Observation?patient={patient}&date=%3C%3D{g.pick(*DATES)}"),
        Case("GET", f"Observation?patient={patient}&value-quantity=%3E{g.pick('2', '5.4')}"),
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


LIKELY = {
    ("search", _search): 60,
    ("read", _read): 8,
    ("create", _create): 8,
    ("update", _update): 3,
    ("patch", _patch): 2,
    ("delete", _delete): 2,
    ("read back", _read_last): 3,
    ("mistake", _mistake): 14,
}
"""Kinds of requests, with their weights."""
