"""Answers a generated question from a chart: the searches to make, the values, and the ids that support them.

This file imports nothing of this project, because the code protocol sends its text to the sandbox as a program.

A lookup is an object with `kind` (the kind of entries) and `op` (what to compute from them). It also contains whichever
of `names`, `route`, `window`, `exact`, `other`, `agg`, `side`, `limit`, `per`, `unit` and `field` the question needs.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

Json = dict[str, Any]

VOID = ("cancelled", "not-done", "entered-in-error")
LOINC = "http://loinc.org"
CULTURES = "https://fhir.example.org/codes/microbiology"
CODED = ("lab", "vital", "output", "body", "microbiology")
STAYS = {"stay": "IMP", "icu": "ACUTE", "emergency": "EMER"}
PLACES = {"first": 0, "second": 1, "second-to-last": -2, "last": -1}
LATE = "9999"


def searches(lookup: Json, patient: str) -> list[Any]:
    """The searches for the resources that a lookup needs: pairs of a type and its parameters."""
    kind = lookup["kind"]
    if kind == "patient":
        return [("Patient", {"_id": patient})]
    own = {"patient": patient, "_count": "1000"}
    if kind in STAYS or kind == "careunit":
        return [("Encounter", own | ({"_include": "Encounter:location"} if kind == "careunit" else {}))]
    if kind == "drug":
        reads: list[Any] = [("MedicationRequest", own | {"_include": "MedicationRequest:medication"})]
    elif kind in CODED:
        reads = [("Observation", own | _narrowed(lookup))]
    else:
        reads = [("Procedure" if kind == "procedure" else "Condition", own)]
    if lookup["window"][0] in STAYS:
        reads.append(("Encounter", own))
    return reads


def _narrowed(lookup: Json) -> Json:
    """The parameters of a search for Observations: their codes, or the category or code system of the kind."""
    kind, names = lookup["kind"], lookup.get("names")
    if names:
        narrowed = {"code": ",".join(sorted({name.split("/")[0] for name in names}))}
    elif kind == "lab":
        narrowed = {"category": "laboratory", "code": LOINC + "|"}
    elif kind == "output":
        narrowed = {"category": "survey"}
    else:
        narrowed = {"code": CULTURES + "|"}
    if lookup.get("field") == "specimen":
        narrowed["_include"] = "Observation:specimen"
    if lookup.get("field") == "organism" or lookup["op"] == "grew":
        narrowed["_include"] = "Observation:has-member"
    return narrowed


def entries(lookup: Json, now: str, resources: list[Json]) -> list[Json]:
    """The entries of a chart that match a lookup, sorted by time.

    An entry contains `time`, `name` and `ids` (pairs of type and id). Depending on its kind, it contains more, such as
    `value`, `unit`, `route` or `end`.
    """
    bounds = _bounds(lookup["window"], now, resources)
    if bounds is None:
        return []
    by_reference = {one["resourceType"] + "/" + one["id"]: one for one in resources}
    names = [name.lower() for name in lookup.get("names", [])]
    chosen = []
    for one in resources:
        for entry in _read(lookup, one, by_reference):
            fits = not names or entry["name"].lower() in names
            routed = "route" not in lookup or entry["route"] == lookup["route"]
            if fits and routed and bounds[0] <= entry["time"] and entry["time"] <= bounds[1]:
                chosen.append(entry)
    if "side" in lookup and lookup["op"] != "compare":
        chosen = [one for one in chosen if _beyond(one["value"], lookup["side"], lookup["limit"])]
    chosen = sorted(chosen, key=lambda one: (one["time"], one["ids"]))
    if lookup["op"] == "when-extreme" and chosen:
        values = [one["value"] for one in chosen]
        extreme = max(values) if lookup["agg"] == "highest" else min(values)
        chosen = [one for one in chosen if one["value"] == extreme]
    return chosen


def answer(lookup: Json, now: str, chosen: list[Json]) -> tuple[list[Any], list[Any]]:
    """The values that answer a lookup, and the ids of the entries that they come from. Yes and no are booleans."""
    op = lookup["op"]
    every = [one for entry in chosen for one in entry["ids"]]
    if op == "any":
        return [bool(chosen)], every
    if op == "count":
        return [len(chosen)], every
    if op == "names":
        return [len({one["name"] for one in chosen})], every
    if op == "times":
        return [one["time"] for one in chosen], every
    if op in ("total", "agg", "per"):
        return _summed(lookup, chosen), every
    place = PLACES[lookup.get("exact", "last")]
    if op in ("change", "compare"):
        return _compared(lookup, chosen)
    if len(chosen) < (place + 1 if place >= 0 else -place):
        return [], []
    entry = chosen[place]
    if op == "elapsed":
        return [_since(entry["time"], now, lookup["unit"])], entry["ids"]
    if op == "grew":
        return [bool(entry["organism"])], entry["ids"] + entry["held"]
    field = "time" if op in ("when", "when-extreme") else lookup["field"]
    value = entry["value"] if field == "value" else entry[field]
    return (value if isinstance(value, list) else [value]), entry["ids"] + entry.get("held", [])


def _summed(lookup: Json, chosen: list[Json]) -> list[Any]:
    """A total or an aggregate, over all values or for each day, month or year."""
    if not chosen:
        return []
    if lookup["op"] != "per":
        return [_aggregate(lookup.get("agg", "total"), [one["value"] for one in chosen])]
    width = {"day": 10, "month": 7, "year": 4}[lookup["per"]]
    groups: dict[str, list[Any]] = {}
    for one in chosen:
        groups.setdefault(one["time"][:width], []).append(one["value"])
    return [_aggregate(lookup["agg"], groups[period]) for period in sorted(groups)]


def _compared(lookup: Json, chosen: list[Json]) -> tuple[list[Any], list[Any]]:
    """The change from an earlier value to a later one, or whether the later one is above or below it."""
    before, after = PLACES[lookup["exact"]], PLACES[lookup["other"]]
    if len(chosen) < 2:
        return [], []
    one, other = chosen[before], chosen[after]
    ids = one["ids"] + other["ids"]
    if lookup["op"] == "change":
        return [_plain(other["value"] - one["value"])], ids
    return [_beyond(other["value"], lookup["side"], one["value"])], ids


def _aggregate(name: str, values: list[Any]) -> Any:
    if name == "lowest":
        return min(values)
    if name == "highest":
        return max(values)
    return _plain(sum(values) if name == "total" else sum(values) / len(values))


def _beyond(value: Any, side: str, limit: Any) -> bool:
    return bool(value > limit if side == "above" else value < limit)


def _plain(value: Any) -> Any:
    """A number rounded to four places, without the noise of binary fractions. Whole numbers become ints."""
    rounded = round(value, 4)
    return int(rounded) if rounded == int(rounded) else rounded


def _since(time: str, now: str, unit: str) -> Any:
    seconds = (datetime.fromisoformat(now) - datetime.fromisoformat(time)).total_seconds()
    return _plain(seconds / (3600 if unit == "hours" else 86400))


def _bounds(window: Any, now: str, resources: list[Json]) -> tuple[str, str] | None:
    """The first and the last time of a window. None if the window is a stay that does not exist."""
    form = window[0]
    if form == "ever":
        return "", LATE
    if form in ("month", "year"):
        return window[1], window[1] + "-99"
    if form == "since":
        return window[1], LATE
    stays = sorted(_periods(one, form)[0] for one in resources if _periods(one, form))
    if window[1] == "current":
        stays = [one for one in stays if one[1] == LATE]
    if not stays:
        return None
    return stays[0] if window[1] == "first" else stays[-1]


def _periods(one: Json, form: str) -> list[tuple[str, str]]:
    """The period of an Encounter of this format, in a list. Empty for any other resource."""
    if one["resourceType"] != "Encounter" or one["class"]["code"] != STAYS[form] or one["status"] in VOID:
        return []
    period = one["period"]
    return [(_time(period["start"]), _time(period["end"]) if "end" in period else LATE)]


def _read(lookup: Json, one: Json, by_reference: Json) -> list[Json]:
    """The entries of the lookup's kind in a resource."""
    kind, type_ = lookup["kind"], one["resourceType"]
    own = {"name": "", "ids": [[type_, one["id"]]]}
    if kind == "patient" and type_ == "Patient":
        marital = one["maritalStatus"]["coding"][0]["display"]
        return [own | {"time": "", "gender": one["gender"], "marital": marital}]
    if one.get("status") in VOID:
        return []
    if kind in CODED and type_ == "Observation":
        return _measured(lookup, one, by_reference, own)
    if kind == "drug" and type_ == "MedicationRequest":
        return [own | _ordered(one, by_reference)]
    if kind in STAYS and type_ == "Encounter":
        return [own | _stay(one, kind)] if _periods(one, kind) else []
    if kind == "careunit" and type_ == "Encounter":
        return [_unit(place, by_reference, own) for place in one.get("location", [])]
    if kind == "procedure" and type_ == "Procedure":
        time = one["performedDateTime"] if "performedDateTime" in one else one["performedPeriod"]["start"]
        return [own | {"time": _time(time), "name": one["code"]["text"]}]
    if kind == "diagnosis" and type_ == "Condition":
        return [own | {"time": _time(one["recordedDate"]), "name": one["code"]["text"]}]
    return []


def _measured(lookup: Json, one: Json, by_reference: Json, own: Json) -> list[Json]:
    """The entries of an Observation. A blood pressure gives two entries: `BP/0` (systolic) and `BP/1` (diastolic)."""
    kind, coding = lookup["kind"], one["code"]["coding"][0]
    system, category = coding.get("system"), one["category"][0]["coding"][0]["code"]
    time = _time(one["effectiveDateTime"])
    if kind == "microbiology":
        return [own | {"time": time} | _culture(lookup, one, by_reference)] if system == CULTURES else []
    if kind == "lab" and (system != LOINC or category != "laboratory"):
        return []
    if kind == "output" and category != "survey":
        return []
    if coding["code"] == "BP":
        values = one["valueString"].split(" ")[0].split("/")
        both = [own | {"time": time, "name": "BP/" + str(part), "value": int(values[part])} for part in (0, 1)]
        return [each | {"unit": "mmHg"} for each in both]
    if "valueQuantity" not in one:
        return []
    quantity = one["valueQuantity"]
    return [own | {"time": time, "name": coding["code"], "value": quantity["value"], "unit": quantity["unit"]}]


def _culture(lookup: Json, one: Json, by_reference: Json) -> Json:
    """A microbiology test with its specimen or organisms. `held` are the ids of those that the lookup reads."""
    part = "specimen" if lookup.get("field") == "specimen" else "organism"
    links = [one["specimen"]] if part == "specimen" else one.get("hasMember", [])
    if lookup["op"] != "grew" and lookup.get("field") != part:
        links = []
    read = [by_reference[link["reference"]] for link in links]
    texts = [each["type"]["text"] if part == "specimen" else each["code"]["text"] for each in read]
    return {
        "name": one["code"]["text"],
        part: texts,
        "held": [[each["resourceType"], each["id"]] for each in read],
    }


def _ordered(one: Json, by_reference: Json) -> Json:
    """A prescription's time, drug, route and dose."""
    dosage = one["dosageInstruction"][0]
    dose = dosage["doseAndRate"][0]["doseQuantity"]
    entry = {
        "time": _time(one["authoredOn"]),
        "route": dosage["route"]["text"],
        "value": dose["value"],
        "unit": dose["unit"],
    }
    if "medicationCodeableConcept" in one:
        return entry | {"name": one["medicationCodeableConcept"]["text"]}
    drug = by_reference[one["medicationReference"]["reference"]]
    ids = [["MedicationRequest", one["id"]], ["Medication", drug["id"]]]
    return entry | {"name": drug["code"]["text"], "ids": ids}


def _stay(one: Json, kind: str) -> Json:
    """A stay's times, length in days, urgency and source of admission."""
    start, end = _periods(one, kind)[0]
    entry = {"time": start, "end": end, "days": 0 if end == LATE else _since(start, end, "days")}
    if "priority" in one:
        entry["urgency"] = one["priority"]["coding"][0]["display"]
    if "hospitalization" in one:
        entry["name"] = one["hospitalization"]["admitSource"]["coding"][0]["display"]
    return entry


def _unit(place: Json, by_reference: Json, own: Json) -> Json:
    """The time at which a stay in a care unit began, and the unit."""
    location = by_reference[place["location"]["reference"]]
    ids = [*own["ids"], ["Location", location["id"]]]
    return {"time": _time(place["period"]["start"]), "name": location["name"], "ids": ids}


def _time(text: str) -> str:
    """A time in the format of answers. Its zone is dropped, because all times of the hospital are in the same zone."""
    return text[:19].replace("T", " ")
