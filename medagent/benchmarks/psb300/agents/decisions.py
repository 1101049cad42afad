"""The decision for each task type, made from the resources that its searches found.

This file imports nothing of this project, because the code protocol sends its text to the sandbox as a program.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

Json = dict[str, Any]

CPT = "http://www.ama-assn.org/go/cpt"
ANTICOAGULANTS = (
    "heparin",
    "enoxaparin",
    "dalteparin",
    "fondaparinux",
    "apixaban",
    "rivaroxaban",
    "dabigatran",
    "warfarin",
)
PROLONGING = (
    "ondansetron",
    "prochlorperazine",
    "haloperidol",
    "quetiapine",
    "olanzapine",
    "risperidone",
    "ziprasidone",
    "clozapine",
    "chlorpromazine",
)
OPIOIDS = ("hydromorphone", "oxycodone", "fentanyl", "hydrocodone", "morphine")


def decide(kind: str, now: datetime, results: list[list[Json]]) -> tuple[list[Any], list[Json]]:
    """The answers and the orders of a task. `results` has the resources of each search.

    The orders lack the fields that all orders have in common.
    """
    if kind == "task3":
        return _heart_rate(now, results[0]), []
    orders = {
        "task1": _new_ct,
        "task2": _prophylaxis,
        "task4": _catheter,
        "task5": _tumour,
        "task6": _thyroid,
        "task7": _qtc,
        "task8": _naloxone,
        "task9": _influenza,
        "task10": _covid,
    }
    return [], orders[kind](now, results)


def _new_ct(now: datetime, results: list[list[Json]]) -> list[Json]:
    last = _last_done(results[0])
    if last is not None and now - last <= timedelta(days=365):
        return []
    reason = {"reasonCode": [{"text": "Renal mass follow-up"}]}
    return [_service("74177", "CT abdomen and pelvis with contrast", CPT) | reason]


def _prophylaxis(now: datetime, results: list[list[Json]]) -> list[Json]:
    orders = [one for one in _active(results[0]) if _mentions(one, ANTICOAGULANTS)]
    requested = [one for one in orders if _mentions(one, ("heparin",)) and _mentions(one, ("5,000", "5000"))]
    newest = max(requested, key=lambda one: _time(one["authoredOn"]), default=None)
    missing = [] if newest is not None else [_drug("heparin 5000 units subcutaneous every 8 hours")]
    return missing + [_stop(one) for one in orders if one is not newest]


def _heart_rate(now: datetime, readings: list[Json]) -> list[Any]:
    means = []
    for hours in (6, 12):
        values = []
        for one in readings:
            taken = _time(one["effectiveDateTime"])
            if now - timedelta(hours=hours) <= taken and taken <= now:
                values.append(one["valueQuantity"]["value"])
        means.append(sum(values) / len(values) if values else -1)
    return means


def _catheter(now: datetime, results: list[list[Json]]) -> list[Json]:
    last = _last_done(results[0])
    removals = [one for one in _active(results[1]) if "NUR1373" in _codes(one)]
    if last is None or now - last <= timedelta(hours=48) or removals:
        return []
    return [_service("NUR1373", "Removal of the urinary catheter")]


def _tumour(now: datetime, results: list[list[Json]]) -> list[Json]:
    last = _last_done(results[1])
    if not results[0] or (last is not None and now - last <= timedelta(days=90)):
        return []
    ct = _service("74177", "CT abdomen and pelvis with contrast", CPT)
    return [ct, _service("CON417", "Referral to interventional radiology")]


def _thyroid(now: datetime, results: list[list[Json]]) -> list[Json]:
    tsh, ft4 = _readings_of(results[0]), _readings_of(results[1])
    high = [taken for taken, value in tsh if value > 10]
    if high and max(high) - min(high) >= timedelta(days=30):
        days, drugs = 42, [_drug("levothyroxine 25 mcg by mouth daily")]
    elif tsh and ft4 and 4.5 <= max(tsh)[1] <= 10 and 0.8 <= max(ft4)[1] <= 1.8:
        days, drugs = 90, []
    else:
        return []
    when = {"occurrenceDateTime": (now + timedelta(days=days)).isoformat()}
    return drugs + [_service(code, code) | when for code in ("TSH", "FT4")]


def _qtc(now: datetime, results: list[list[Json]]) -> list[Json]:
    taken = _readings_of(results[0])
    if not taken or max(taken)[1] <= 500:
        return []
    when = {"occurrenceDateTime": (now + timedelta(hours=24)).isoformat()}
    ecg = _service("445118002", "12-lead ECG", "http://snomed.info/sct") | when
    return [ecg] + [_stop(one) for one in _active(results[1]) if _mentions(one, PROLONGING)]


def _naloxone(now: datetime, results: list[list[Json]]) -> list[Json]:
    orders = _active(results[0])
    opioid = [one for one in orders if _mentions(one, OPIOIDS)]
    if not opioid or [one for one in orders if _mentions(one, ("naloxone", "narcan"))]:
        return []
    return [_drug("naloxone 4 mg nasal spray")]


def _influenza(now: datetime, results: list[list[Json]]) -> list[Json]:
    last = _last_done(results[0])
    if last is not None and now - last <= timedelta(days=365):
        return []
    return [_service("90686", "Influenza vaccine", CPT)]


def _covid(now: datetime, results: list[list[Json]]) -> list[Json]:
    drugs = [one for one in results[1] if one.get("status") == "completed" and _mentions(one, ("covid-19 vac",))]
    last = _last_done(results[0] + drugs)
    if last is not None and (now.date() - last.date()).days <= 365:
        return []
    return [_service("91320", "COVID-19 vaccine", CPT)]


def _last_done(resources: list[Json]) -> datetime | None:
    times = []
    for one in resources:
        period = one.get("performedPeriod") or {}
        text = one.get("performedDateTime") or period.get("end") or period.get("start") or one.get("authoredOn")
        if text:
            times.append(_time(text))
    return max(times) if times else None


def _readings_of(resources: list[Json]) -> list[tuple[datetime, float]]:
    return [(_time(one["effectiveDateTime"]), one["valueQuantity"]["value"]) for one in resources]


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _active(resources: list[Json]) -> list[Json]:
    return [one for one in resources if one.get("status") == "active"]


def _mentions(order: Json, words: tuple[str, ...]) -> bool:
    text = order.get("medicationCodeableConcept", {}).get("text", "").lower()
    return any(word in text for word in words)


def _codes(resource: Json) -> list[str]:
    return [coding.get("code") for coding in resource.get("code", {}).get("coding", [])]


def _service(code: str, display: str, system: str = "http://hospital.example/orders") -> Json:
    coding = {"system": system, "code": code, "display": display}
    return {"resourceType": "ServiceRequest", "code": {"coding": [coding], "text": display}}


def _drug(text: str) -> Json:
    return {"resourceType": "MedicationRequest", "medicationCodeableConcept": {"text": text}}


def _stop(order: Json) -> Json:
    return _drug(order["medicationCodeableConcept"]["text"]) | {"status": "stopped"}
