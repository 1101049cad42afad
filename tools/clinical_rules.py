"""Checks whether a hospital is plausible for a clinician: rules over its charts, and how often each was checked.

    python tools/clinical_rules.py                    # the bundled hospital
    python tools/clinical_rules.py --seed 7 --seed 8  # hospitals like it from other seeds
    python tools/clinical_rules.py FILE.ndjson        # any hospital of `medagent data new`

Prints a line for each rule, and up to five of its violations. The exit code is 1 if there is a violation.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools import clinical_tables as t  # noqa: E402  # after sys.path
from tools.clinical_notes import note_text, notes  # noqa: E402  # after sys.path
from tools.hospital_chart import TIMES, Chart, Resource, Tally, charts, drug_text, moment, named, where, within  # noqa: E402  # after sys.path


def problems(chart: Chart, tally: Tally) -> None:
    """Every drug order treats a problem that is active at that time, or is exempt."""
    operations = [
        moment(procedure["performedDateTime"])
        for procedure in chart.of("Procedure")
        if "performedDateTime" in procedure
        and procedure["code"]["coding"][0]["code"] in ("27447", "47562", "50543", "49650", "44970")
    ]
    for order in chart.orders:
        text, time = drug_text(order), moment(order["authoredOn"])
        if named(t.EXEMPT, text):
            tally.check(True)
            continue
        near = any(abs(time - operation) < timedelta(days=1) for operation in operations)
        around = named(t.PERIOPERATIVE, text)
        if around and near:
            tally.check(True)
            continue
        treats = t.TREATS.get(named(t.TREATS, text) or "") or t.PERIOPERATIVE.get(around or "", ())
        treated = any(
            condition["code"]["coding"][0]["code"].startswith(treats) and chart.active(condition, time)
            for condition in chart.of("Condition")
        )
        tally.check(bool(treats) and treated, order["id"], text, time)


def allergies(chart: Chart, tally: Tally) -> None:
    """No active order conflicts with a recorded allergy."""
    barred = [
        drug
        for allergy in chart.of("AllergyIntolerance")
        for drug in t.CONFLICTS.get(allergy["code"]["text"].lower(), ())
    ]
    for order in chart.orders:
        if order["status"] in ("active", "on-hold"):
            tally.check(not any(drug in drug_text(order) for drug in barred), order["id"], drug_text(order))


def doses(chart: Chart, tally: Tally) -> None:
    """Doses are in the drug's unit and range, also over a day."""
    for order in chart.orders:
        name = named(t.DOSES, drug_text(order))
        if name:
            unit, low, high, most = t.DOSES[name]
            dose, daily = _dose(order)
            fits = dose["code"] == unit and low <= dose["value"] <= high and daily <= most
            tally.check(fits, order["id"], drug_text(order), dose["value"], dose["code"], daily)


def _dose(order: Resource) -> tuple[Resource, float]:
    instruction = order["dosageInstruction"][0]
    dose: Resource = instruction["doseAndRate"][0]["doseQuantity"]
    return dose, dose["value"] * instruction["timing"]["repeat"].get("frequency", 1)


def kidneys(chart: Chart, tally: Tally) -> None:
    """Doses are adjusted for kidney function if the drug requires it."""
    for order in chart.orders:
        name = named(t.KIDNEY, drug_text(order))
        if name:
            limit, most = t.KIDNEY[name]
            rate = chart.filtration(moment(order["authoredOn"]))
            fits = rate is None or rate >= limit or _dose(order)[1] <= most
            tally.check(fits, order["id"], drug_text(order), f"eGFR {rate:.0f}" if rate else "")


def ends(chart: Chart, tally: Tally) -> None:
    """A stopped or completed drug ends, and not before its start; an active drug is without an end."""
    for order in chart.orders:
        period = order["dispenseRequest"]["validityPeriod"]
        if order["status"] in ("stopped", "completed"):
            tally.check("end" in period and period["end"] >= period["start"], order["id"], order["status"], period)
        else:
            tally.check("end" not in period, order["id"], order["status"], period)


def once(chart: Chart, tally: Tally) -> None:
    """No problem is active in one entry and resolved in another."""
    states: dict[str, set[str]] = {}
    for condition in chart.of("Condition"):
        if "clinicalStatus" in condition:
            states.setdefault(condition["code"]["text"], set()).add(condition["clinicalStatus"]["coding"][0]["code"])
    for text, entries in states.items():
        tally.check(len(entries) == 1, chart.patient["id"], text)


def onsets(chart: Chart, tally: Tally) -> None:
    """A problem begins after birth and is recorded after its onset."""
    for condition in chart.of("Condition"):
        fits = chart.patient["birthDate"] < condition["onsetDateTime"] <= condition["recordedDate"][:10]
        tally.check(fits, condition["id"], condition["onsetDateTime"], condition["recordedDate"])


def persons(chart: Chart, tally: Tally) -> None:
    """Problems and procedures are possible for the patient's age and sex."""
    for event in (*chart.of("Condition"), *chart.of("Procedure")):
        code = event["code"]["coding"][0]["code"]
        time = event.get("performedDateTime") or event.get("recordedDate") or event["performedPeriod"]["start"]
        youngest = t.YOUNGEST.get(named(t.YOUNGEST, code) or "", 0)
        fits = chart.age(moment(time)) >= youngest and (
            chart.patient["gender"] == "male" or not code.startswith(t.MALE)
        )
        tally.check(fits, event["id"], code, chart.age(moment(time)), chart.patient["gender"])


def hours(chart: Chart, tally: Tally) -> None:
    """Planned stays begin from 5 to 10 o'clock, living patients leave from 9 to 19, visits are from 7 to 21."""
    for encounter in chart.of("Encounter"):
        start, end = encounter["period"]["start"], encounter["period"].get("end")
        kind = encounter["class"]["code"]
        if kind == "AMB":
            tally.check(7 <= moment(start).hour < 21, encounter["id"], start)
        elif kind == "IMP":
            if encounter["priority"]["coding"][0]["code"] == "EL":
                tally.check(5 <= moment(start).hour < 10, encounter["id"], start)
            leaves = encounter["hospitalization"].get("dischargeDisposition", {}).get("coding", [{}])[0].get("code")
            if end and leaves != "exp":
                tally.check(9 <= moment(end).hour < 19, encounter["id"], end)


def contained(chart: Chart, tally: Tally) -> None:
    """A resource that refers to an encounter is dated within it, and one dated within a stay refers to an encounter."""
    for kind, name in TIMES.items():
        for resource in chart.of(kind):
            start = resource.get(name) or resource["performedPeriod"]["start"]
            end = resource.get("performedPeriod", {}).get("end", start)
            encounter_id = where(resource)
            if encounter_id is not None:
                encounter = chart.encounters[encounter_id]
                inside = within(encounter, moment(start)) and within(encounter, moment(end))
                tally.check(inside, kind, resource["id"], start, end, encounter["period"])
            elif kind != "Immunization":
                around = [stay["id"] for stay in chart.stays if within(stay, moment(start))]
                tally.check(not around, kind, resource["id"], start, "without", *around)


def apart(chart: Chart, tally: Tally) -> None:
    """Stays and visits do not overlap."""
    whole = sorted(
        (encounter["period"]["start"], encounter["period"].get("end", "9"), encounter["id"])
        for encounter in chart.of("Encounter")
        if "partOf" not in encounter
    )
    for before, after in pairwise(whole):
        tally.check(before[1] <= after[0], *before, *after)


def ways(chart: Chart, tally: Tally) -> None:
    """The units of a stay follow each other without gaps, the emergency department first; its parts match the units."""
    parts = {(part["location"][0]["location"]["reference"], part["period"]["start"]) for part in chart.parts}
    for stay in chart.stays:
        units = stay["location"]
        tally.check(units[0]["period"]["start"] == stay["period"]["start"], stay["id"], "first unit")
        tally.check(units[-1]["period"].get("end") == stay["period"].get("end"), stay["id"], "last unit")
        for before, after in pairwise(units):
            tally.check(before["period"]["end"] == after["period"]["start"], stay["id"], before, after)
        for place, unit in enumerate(units):
            name = unit["location"]["reference"]
            emergency, intensive = name.endswith("emergency"), name.endswith(("micu", "sicu", "ccu"))
            tally.check(not emergency or place == 0, stay["id"], "emergency later")
            known = (name, unit["period"]["start"]) in parts
            tally.check(known == (emergency or intensive), stay["id"], name, "is a part:", known)


def deaths(chart: Chart, tally: Tally) -> None:
    """No resource is dated after a death."""
    died = chart.patient.get("deceasedDateTime")
    for kind, name in TIMES.items() if died else ():
        for resource in chart.of(kind):
            tally.check((resource.get(name) or resource["performedPeriod"]["start"]) <= str(died), kind, resource["id"])


def laboratory(chart: Chart, tally: Tally) -> None:
    """Results include UCUM units, a reference range, and an interpretation that matches value and range."""
    for observation in chart.of("Observation"):
        quantity = observation.get("valueQuantity")
        if quantity is None:
            continue
        tally.check(quantity["unit"] == quantity["code"] and quantity["code"] in t.UCUM, observation["id"], quantity)
        if observation["category"][0]["coding"][0]["code"] != "laboratory":
            continue
        bounds = observation.get("referenceRange", [{}])[0]
        low, high = bounds.get("low", {}).get("value"), bounds.get("high", {}).get("value")
        value = quantity["value"]
        mark = "L" if low is not None and value < low else "H" if high is not None and value > high else "N"
        interpretation = observation.get("interpretation", [{"coding": [{"code": None}]}])[0]["coding"][0]["code"]
        tally.check(
            bool(bounds) and interpretation == mark,
            observation["id"],
            observation["code"]["text"],
            value,
            bounds,
            interpretation,
        )


def isolates(chart: Chart, tally: Tally) -> None:
    """Organisms are tested against their usual antibiotics, and are resistant to those that never work on them."""
    tests = {
        f"Observation/{observation['id']}": observation
        for observation in chart.of("Observation")
        if "valueCodeableConcept" in observation
    }
    for observation in chart.of("Observation"):
        organism = observation["code"].get("text", "")
        members = [tests[ref["reference"]] for ref in observation.get("hasMember", []) if ref["reference"] in tests]
        for test in members:
            antibiotic, mark = test["code"]["text"], test["valueCodeableConcept"]["coding"][0]["code"]
            tested = antibiotic not in t.UNTESTED[organism.startswith(t.GRAM_POSITIVE)]
            fits = mark == "R" or antibiotic not in t.RESISTANT.get(organism, ())
            tally.check(tested and fits, test["id"], organism, antibiotic, mark)


def once_a_day(chart: Chart, tally: Tally) -> None:
    """A drug for a single dose is ordered at most once a day, except flushes and replacements."""
    ordered = Counter(
        (drug_text(order), order["authoredOn"][:10])
        for order in chart.orders
        if "count" in order["dosageInstruction"][0]["timing"]["repeat"]
        and order["category"][0]["coding"][0]["code"] == "inpatient"
    )
    for (text, day), count in ordered.items():
        again = text.startswith(("sodium chloride", "potassium chloride", "magnesium sulfate"))
        tally.check(count == 1 or again, chart.patient["id"], text, day)


def reactions(chart: Chart, tally: Tally) -> None:
    """A critical result is followed by an order, a repeat or a note, within four hours or before death."""
    results = [resource for resource in chart.of("Observation") if "issued" in resource and "valueQuantity" in resource]
    notes = [(moment(note["date"]), note_text(note)) for note in chart.of("DocumentReference")]
    for result in results:
        code, value = result["code"]["text"], _number(result)
        drawn, issued = moment(result["effectiveDateTime"]), moment(result["issued"])
        low, high = t.CRITICAL.get(code, (value, value))
        if low <= value <= high:
            continue
        replaced = any(
            drug_text(order).startswith(t.REPLACES[code]) and issued <= moment(order["authoredOn"]) < issued + _SOON
            for order in (chart.orders if code in t.REPLACES and value < low else ())
        )
        repeated = any(
            later["code"]["text"] == code and drawn < moment(later["effectiveDateTime"]) < issued + _SOON
            for later in results
        )
        words = f"critical result of the draw at {drawn:%H:%M}"
        noted = any(words in text and drawn <= time < issued + _SOON for time, text in notes)
        tally.check(replaced or repeated or noted, result["id"], code, value, drawn)


_SOON = timedelta(hours=4)
"""A reaction to a critical result follows within this time."""


def _number(reading: Resource) -> float:
    return float(reading["valueQuantity"]["value"])


def oxygen(chart: Chart, tally: Tally) -> None:
    """Oxygen is ordered in a stay in which the saturation falls below 88%."""
    ordered = {where(order) for order in chart.of("ServiceRequest") if order["code"]["text"].startswith("Oxygen")}
    for reading in chart.of("Observation"):
        if reading["code"].get("text") == "SPO2" and _number(reading) < t.SATURATION:
            part = chart.encounters[where(reading) or ""]
            stay = part["partOf"]["reference"].partition("/")[2] if "partOf" in part else part["id"]
            tally.check(stay in ordered, reading["id"], _number(reading), stay)


def doubled(chart: Chart, tally: Tally) -> None:
    """No test has two different results in one minute, and no test of the laboratory but glucose within ten minutes."""
    readings: dict[str, list[tuple[datetime, float, bool]]] = {}
    for reading in chart.of("Observation"):
        if "valueQuantity" in reading:
            is_laboratory = reading["category"][0]["coding"][0]["code"] == "laboratory"
            row = moment(reading["effectiveDateTime"]), _number(reading), is_laboratory
            readings.setdefault(reading["code"]["text"], []).append(row)
    for code, rows in readings.items():
        for (before, old, _), (time, new, is_laboratory) in pairwise(sorted(rows)):
            least = timedelta(minutes=10 if is_laboratory and code != "GLU" else 1)
            tally.check(old == new or time - before >= least, chart.patient["id"], code, before, old, time, new)


def alone(chart: Chart, tally: Tally) -> None:
    """No drug is ordered twice at the same time, and no two drugs of a group of which a patient needs one.

    Orders for home and for a stay may be for the same drug, if not both are active now.
    """
    orders = [order for order in chart.orders if not named(t.REPEATABLE, drug_text(order))]
    for place, order in enumerate(orders):
        for earlier in orders[:place]:
            alike = _group(order) == _group(earlier)
            same_place = order["category"] == earlier["category"]
            both = order["status"] == earlier["status"] == "active" or (same_place and _overlap(order, earlier))
            tally.check(not (alike and both), order["id"], drug_text(order), earlier["id"], drug_text(earlier))


def _group(order: Resource) -> str:
    """The group of a drug, or the drug itself."""
    first, second = drug_text(order).split()[:2]
    name = f"{first} {second}" if first == "insulin" else first
    return next((group[0] for group in t.ALONE if name in group), name)


def _overlap(order: Resource, earlier: Resource) -> bool:
    first, second = (request["dispenseRequest"]["validityPeriod"] for request in (order, earlier))
    return bool(max(first["start"], second["start"]) < min(first.get("end", "9"), second.get("end", "9")))


def monitored(chart: Chart, tally: Tally) -> None:
    """A drug that needs a test is followed by it, and the test shows its effect."""
    contacts = [moment(encounter["period"]["start"]) for encounter in chart.encounters.values()]
    stays = {stay["id"] for stay in chart.stays}
    for order in chart.orders:
        name = named(t.MONITORED, drug_text(order))
        if name is None or order["category"][0]["coding"][0]["code"] == "inpatient":
            continue
        code, days, low, high = t.MONITORED[name]
        period = order["dispenseRequest"]["validityPeriod"]
        start = max(moment(period["start"]), min(contacts))
        end = moment(period["end"]) if "end" in period else max(contacts)
        results = sorted(
            (moment(result["effectiveDateTime"]), _number(result), where(result))
            for result in chart.of("Observation")
            if result["code"].get("text") == code and "valueQuantity" in result
        )
        times = [start, *(time for time, _, _ in results if start <= time <= end), end]
        followed = bool(results) and all(after - before <= timedelta(days=days) for before, after in pairwise(times))
        tally.check(followed, order["id"], name, *times)
        steady = [row for row in results if start + timedelta(days=14) <= row[0] <= end]
        outside = [value for _, value, place in steady if place not in stays]
        tally.check(not outside or low <= median(outside) <= high, order["id"], name, code, outside)


def shown(chart: Chart, tally: Tally) -> None:
    """Kidney failure and stage 3a come with their creatinine (KDIGO), infections with antibiotics, infarctions with
    anticoagulants.

    Acute failure needs 1.5 times the usual creatinine, stage 3a a filtration rate of 45 to 59 with a margin for spread.
    """
    reasons = {stay["id"]: stay["reasonCode"][0]["text"].lower() for stay in chart.stays}
    readings = [
        (where(observation), moment(observation["effectiveDateTime"]), _number(observation))
        for observation in chart.of("Observation")
        if observation["code"].get("text") == "CREA" and "valueQuantity" in observation
    ]
    usual = sorted(value for place, _, value in readings if place not in reasons)
    rates = sorted(chart.filtration(time) or 0.0 for place, time, _ in readings if place not in reasons)
    for stay, reason in reasons.items():
        highest = max((value for place, _, value in readings if place == stay), default=None)
        if reason.startswith("acute kidney failure") and usual and highest:
            tally.check(highest >= 1.5 * usual[len(usual) // 2], stay, highest, "usual", usual)
        treats = t.SHOWN.get(named(t.SHOWN, reason) or "", ())
        drugs = [drug_text(order) for order in chart.orders if where(order) == stay]
        tally.check(not treats or any(named(treats, drug) for drug in drugs), stay, reason, *drugs)
    if rates and any(condition["code"]["coding"][0]["code"] == "N18.31" for condition in chart.of("Condition")):
        tally.check(38 <= median(rates) <= 68, chart.patient["id"], "eGFR", rates)


PER_CHART: dict[str, Callable[[Chart, Tally], None]] = {
    rule.__name__: rule
    for rule in (
        *(problems, allergies, doses, kidneys, ends, once, onsets, persons, hours, contained, apart, ways, deaths),
        *(laboratory, isolates, once_a_day, reactions, oxygen, doubled, alone, monitored, shown),
    )
}


def fever(charts: Iterable[Chart]) -> tuple[Counter[str], Counter[str]]:
    """Fever (38 °C) or pulse 100 on day 1: in at least 60% of stays for pneumonia or sepsis, at most 10% of planned.

    Gives the stays, and those with it, by kind.
    """
    stays, hot = Counter[str](), Counter[str]()
    for chart in charts:
        for stay in chart.stays:
            reason = stay["reasonCode"][0]["text"].lower()
            infection = reason.startswith(("pneumonia", "sepsis"))
            kind = "infection" if infection else "planned" if stay["priority"]["coding"][0]["code"] == "EL" else ""
            if kind:
                stays[kind] += 1
                hot[kind] += _hot(chart, stay)
    return stays, hot


def _hot(chart: Chart, stay: Resource) -> bool:
    start = moment(stay["period"]["start"])
    limits = {"TEMP": 38.0, "HEARTRATE": 100}
    return any(
        observation["valueQuantity"]["value"] >= limits[observation["code"]["text"]]
        for observation in chart.of("Observation")
        if observation["code"].get("text") in limits
        and start <= moment(observation["effectiveDateTime"]) < start + timedelta(days=1)
    )


class Stamps:
    """`meta.lastUpdated` is never before the dated event, and differs between resources."""

    def __init__(self) -> None:
        self.found: set[str] = set()

    def __call__(self, chart: Chart, tally: Tally) -> None:
        """Check the stamps of a chart."""
        for kind, name in TIMES.items():
            for resource in chart.of(kind):
                stamp = resource["meta"]["lastUpdated"]
                self.found.add(stamp)
                begun = resource.get(name) or resource["performedPeriod"]["start"]
                tally.check(moment(begun) <= moment(stamp), kind, resource["id"], begun, stamp)


def audit(lines: Iterable[str]) -> dict[str, Tally]:
    """All rules over a hospital, by name. Only one chart is in memory; the rule for fever counts over all charts."""
    stamps = Stamps()
    rules = {**PER_CHART, "notes": notes, "stamps": stamps}
    tallies = {name: Tally() for name in (*rules, "fever")}
    stays, hot = Counter[str](), Counter[str]()
    for chart in charts(lines):
        chart.prepare()
        for name, rule in rules.items():
            rule(chart, tallies[name])
        for total, part in zip((stays, hot), fever([chart]), strict=True):
            total.update(part)
    share = {kind: hot[kind] / count for kind, count in stays.items()}
    tallies["fever"].check(share.get("infection", 1.0) >= 0.6, "infections:", share.get("infection"))
    tallies["fever"].check(share.get("planned", 0.0) <= 0.1, "planned:", share.get("planned"))
    tallies["fever"].checked = stays.total()
    tallies["stamps"].check(len(stamps.found) > 1, "all stamps are the same")
    return tallies


def sentence(name: str) -> str:
    """The first sentence of a rule's docstring."""
    rules: dict[str, object] = {**PER_CHART, "notes": notes, "stamps": Stamps, "fever": fever}
    return " ".join((rules[name].__doc__ or "").partition("\n\n")[0].split())


def main() -> int:
    """Check all rules, print the results, and return the exit code."""
    from fhir_server.synthetic.bundled import hospital

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", nargs="?", type=Path, help="an NDJSON file of a hospital")
    parser.add_argument("--seed", type=int, action="append", default=[], help="a hospital from this seed")
    chosen = parser.parse_args()
    sources: list[tuple[str, Iterable[str]]] = [(f"seed {seed}", hospital(seed)) for seed in chosen.seed]
    if chosen.file:
        sources.append((str(chosen.file), chosen.file.open(encoding="utf-8")))
    failed = 0
    for name, lines in sources or [("bundled", hospital())]:
        for rule, tally in audit(lines).items():
            failed += len(tally.violations)
            print(f"{name}: {rule}: {tally.checked} checked, {len(tally.violations)} violations")
            for violation in tally.violations[:5]:
                print(f"  {violation}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
