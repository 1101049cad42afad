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
    common = {"patient": patient, "_count": "1000"}
    if kind in STAYS or kind == "careunit":
        return [("Encounter", common | ({"_include": "Encounter:location"} if kind == "careunit" else {}))]
    if kind == "drug":
        reads: list[Any] = [("MedicationRequest", common | {"_include": "MedicationRequest:medication"})]
    elif kind in CODED:
        reads = [("Observation", common | _narrowed(lookup))]
    else:
        reads = [("Procedure" if kind == "procedure" else "Condition", common)]
    if lookup["window"][0] in STAYS:
        reads.append(("Encounter", common))
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
    by_reference = {resource["resourceType"] + "/" + resource["id"]: resource for resource in resources}
    names = [name.lower() for name in lookup.get("names", [])]
    chosen = []
    for resource in resources:
        for entry in _read(lookup, resource, by_reference):
            fits = not names or entry["name"].lower() in names
            routed = "route" not in lookup or entry["route"] == lookup["route"]
            if fits and routed and bounds[0] <= entry["time"] and entry["time"] <= bounds[1]:
                chosen.append(entry)
    if "side" in lookup and lookup["op"] != "compare":
        chosen = [entry for entry in chosen if _beyond(entry["value"], lookup["side"], lookup["limit"])]
    chosen = sorted(chosen, key=lambda entry: (entry["time"], entry["ids"]))
    if lookup["op"] == "when-extreme" and chosen:
        values = [entry["value"] for entry in chosen]
        extreme = max(values) if lookup["agg"] == "highest" else min(values)
        chosen = [entry for entry in chosen if entry["value"] == extreme]
    return chosen


def answer(lookup: Json, now: str, chosen: list[Json]) -> tuple[list[Any], list[Any]]:
    """The values that answer a lookup, and the ids of the entries that they come from. Yes and no are booleans."""
    op = lookup["op"]
    every = [id_pair for entry in chosen for id_pair in entry["ids"]]
    if op == "any":
        return [bool(chosen)], every
    if op == "count":
        return [len(chosen)], every
    if op == "names":
        return [len({entry["name"] for entry in chosen})], every
    if op == "times":
        return [entry["time"] for entry in chosen], every
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
        return [_aggregate(lookup.get("agg", "total"), [entry["value"] for entry in chosen])]
    width = {"day": 10, "month": 7, "year": 4}[lookup["per"]]
    groups: dict[str, list[Any]] = {}
    for entry in chosen:
        groups.setdefault(entry["time"][:width], []).append(entry["value"])
    return [_aggregate(lookup["agg"], groups[period]) for period in sorted(groups)]


def _compared(lookup: Json, chosen: list[Json]) -> tuple[list[Any], list[Any]]:
    """The change from an earlier value to a later one, or whether the later one is above or below it."""
    before, after = PLACES[lookup["exact"]], PLACES[lookup["other"]]
    if len(chosen) < 2:
        return [], []
    earlier, later = chosen[before], chosen[after]
    ids = earlier["ids"] + later["ids"]
    if lookup["op"] == "change":
        return [_plain(later["value"] - earlier["value"])], ids
    return [_beyond(later["value"], lookup["side"], earlier["value"])], ids


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
    stays = sorted(_periods(resource, form)[0] for resource in resources if _periods(resource, form))
    if window[1] == "current":
        stays = [stay for stay in stays if stay[1] == LATE]
    if not stays:
        return None
    return stays[0] if window[1] == "first" else stays[-1]


def _periods(resource: Json, form: str) -> list[tuple[str, str]]:
    """The period of an Encounter of this format, in a list. Empty for any other resource."""
    if (
        resource["resourceType"] != "Encounter"
        or resource["class"]["code"] != STAYS[form]
        or resource["status"] in VOID
    ):
        return []
    period = resource["period"]
    return [(_time(period["start"]), _time(period["end"]) if "end" in period else LATE)]


def _read(lookup: Json, resource: Json, by_reference: Json) -> list[Json]:
    """The entries of the lookup's kind in a resource."""
    kind, type_ = lookup["kind"], resource["resourceType"]
    base = {"name": "", "ids": [[type_, resource["id"]]]}
    if kind == "patient" and type_ == "Patient":
        marital = resource["maritalStatus"]["coding"][0]["display"]
        return [base | {"time": "", "gender": resource["gender"], "marital": marital}]
    if resource.get("status") in VOID:
        return []
    if kind in CODED and type_ == "Observation":
        return _measured(lookup, resource, by_reference, base)
    if kind == "drug" and type_ == "MedicationRequest":
        return [base | _ordered(resource, by_reference)]
    if kind in STAYS and type_ == "Encounter":
        return [base | _stay(resource, kind)] if _periods(resource, kind) else []
    if kind == "careunit" and type_ == "Encounter":
        return [_unit(place, by_reference, base) for place in resource.get("location", [])]
    if kind == "procedure" and type_ == "Procedure":
        time = (
            resource["performedDateTime"] if "performedDateTime" in resource else resource["performedPeriod"]["start"]
        )
        return [base | {"time": _time(time), "name": resource["code"]["text"]}]
    if kind == "diagnosis" and type_ == "Condition":
        return [base | {"time": _time(resource["recordedDate"]), "name": resource["code"]["text"]}]
    return []


def _measured(lookup: Json, observation: Json, by_reference: Json, base: Json) -> list[Json]:
    """The entries of an Observation. A blood pressure gives two entries: `BP/0` (systolic) and `BP/1` (diastolic)."""
    kind, coding = lookup["kind"], observation["code"]["coding"][0]
    system, category = coding.get("system"), observation["category"][0]["coding"][0]["code"]
    time = _time(observation["effectiveDateTime"])
    if kind == "microbiology":
        return [base | {"time": time} | _culture(lookup, observation, by_reference)] if system == CULTURES else []
    if kind == "lab" and (system != LOINC or category != "laboratory"):
        return []
    if kind == "output" and category != "survey":
        return []
    if coding["code"] == "BP":
        values = observation["valueString"].split(" ")[0].split("/")
        both = [base | {"time": time, "name": "BP/" + str(part), "value": int(values[part])} for part in (0, 1)]
        return [each | {"unit": "mmHg"} for each in both]
    if "valueQuantity" not in observation:
        return []
    quantity = observation["valueQuantity"]
    return [base | {"time": time, "name": coding["code"], "value": quantity["value"], "unit": quantity["unit"]}]


def _culture(lookup: Json, observation: Json, by_reference: Json) -> Json:
    """A microbiology test with its specimen or organisms. `held` are the ids of those that the lookup reads."""
    part = "specimen" if lookup.get("field") == "specimen" else "organism"
    links = [observation["specimen"]] if part == "specimen" else observation.get("hasMember", [])
    if lookup["op"] != "grew" and lookup.get("field") != part:
        links = []
    read = [by_reference[link["reference"]] for link in links]
    texts = [each["type"]["text"] if part == "specimen" else each["code"]["text"] for each in read]
    return {
        "name": observation["code"]["text"],
        part: texts,
        "held": [[each["resourceType"], each["id"]] for each in read],
    }


def _ordered(order: Json, by_reference: Json) -> Json:
    """A prescription's time, drug, route and dose."""
    dosage = order["dosageInstruction"][0]
    dose = dosage["doseAndRate"][0]["doseQuantity"]
    entry = {
        "time": _time(order["authoredOn"]),
        "route": dosage["route"]["text"],
        "value": dose["value"],
        "unit": dose["unit"],
    }
    if "medicationCodeableConcept" in order:
        return entry | {"name": order["medicationCodeableConcept"]["text"]}
    drug = by_reference[order["medicationReference"]["reference"]]
    ids = [["MedicationRequest", order["id"]], ["Medication", drug["id"]]]
    return entry | {"name": drug["code"]["text"], "ids": ids}


def _stay(encounter: Json, kind: str) -> Json:
    """A stay's times, length in days, urgency and source of admission."""
    start, end = _periods(encounter, kind)[0]
    entry = {"time": start, "end": end, "days": 0 if end == LATE else _since(start, end, "days")}
    if "priority" in encounter:
        entry["urgency"] = encounter["priority"]["coding"][0]["display"]
    if "hospitalization" in encounter:
        entry["name"] = encounter["hospitalization"]["admitSource"]["coding"][0]["display"]
    return entry


def _unit(place: Json, by_reference: Json, base: Json) -> Json:
    """The time at which a stay in a care unit began, and the unit."""
    location = by_reference[place["location"]["reference"]]
    ids = [*base["ids"], ["Location", location["id"]]]
    return {"time": _time(place["period"]["start"]), "name": location["name"], "ids": ids}


def _time(text: str) -> str:
    """A time in the format of answers. Its zone is dropped, because all times of the hospital are in the same zone."""
    return text[:19].replace("T", " ")
