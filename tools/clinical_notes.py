"""The rule for notes: they name the reason, match the setting, and agree with problems, drugs and vital signs."""

from __future__ import annotations

import base64
import re
from datetime import datetime, timedelta

from tools import clinical_tables as t
from tools.hospital_chart import Chart, Resource, Tally, drug_text, moment, where

SIGNS = re.compile(
    r"Vital signs at (\d\d:\d\d): HR (\d+)/min, BP (\d+/\d+ mmHg), T ([\d.]+) °C, RR (\d+)/min, SpO2 (\d+) %"
)
CODES = ("HEARTRATE", "BP", "TEMP", "RR", "SPO2")


def notes(chart: Chart, tally: Tally) -> None:
    """Notes name the reason, match the setting, and agree with problems, drugs and vital signs of that day."""
    for note in chart.of("DocumentReference"):
        text, encounter, time = note_text(note), chart.encounters.get(where(note) or ""), moment(note["date"])
        if encounter and encounter["class"]["code"] == "IMP":
            tally.check(encounter["reasonCode"][0]["text"] in text, note["id"], "does not name the reason")
            unit = _unit(encounter, time)
            walks = any(word in text for word in ("Walks", "Slept well")) and unit.endswith(("micu", "sicu", "ccu"))
            tally.check(not walks, note["id"], "walks in intensive care")
        else:
            words = [word for word in t.OUTPATIENT_WORDS if re.search(rf"\b{word}\b", text.lower())]
            tally.check(not words, note["id"], *words)
        _listed(chart, tally, note["id"], text, time)
        _signs(chart, tally, note["id"], text, time)


def note_text(note: Resource) -> str:
    """The text of a note."""
    return base64.b64decode(note["content"][0]["attachment"]["data"]).decode()


def _unit(stay: Resource, time: datetime) -> str:
    reasons = [
        location["location"]["reference"]
        for location in stay["location"]
        if moment(location["period"]["start"]) <= time
        and ("end" not in location["period"] or time < moment(location["period"]["end"]))
    ]
    return str(reasons[0]) if reasons else ""


def _listed(chart: Chart, tally: Tally, name: str, text: str, time: datetime) -> None:
    """Problems that a note lists are active, drugs ordered at that time; no listed problem is left out."""
    for names in re.findall(r"Problems: (.*?)\. (?:Home|Allergies|Vital)", text):
        listed = set() if names == "none" else set(names.split("; "))
        active = {
            condition["code"]["text"]
            for condition in chart.of("Condition")
            if condition["category"][0]["coding"][0]["code"] == "problem-list-item"
            and moment(condition["recordedDate"]) <= time
        }
        tally.check(listed == active, name, "problems", *sorted(listed ^ active))
    for label, home in (("Home medication", True), ("Receives", False)):
        for orders in re.findall(rf"{label}: (.*?)\. (?:Allergies|Follow-up|Plan)", text):
            for drug in [] if orders == "none" else orders.split("; "):
                matches = any(
                    drug_text(order).startswith(drug.lower())
                    and _taken(order, time)
                    and (order["category"][0]["coding"][0]["code"] == "community") == home
                    for order in chart.orders
                )
                tally.check(matches, name, label, drug)


def _taken(order: Resource, time: datetime) -> bool:
    period = order["dispenseRequest"]["validityPeriod"]
    return moment(period["start"]) <= time and ("end" not in period or time < moment(period["end"]))


def _signs(chart: Chart, tally: Tally, name: str, text: str, time: datetime) -> None:
    """Vital signs that a note quotes are the chart's at that minute of the last day."""
    signs = [
        observation
        for observation in chart.of("Observation")
        if observation["category"][0]["coding"][0]["code"] == "vital-signs"
    ]
    for quoted in SIGNS.findall(text):
        hour, minute = map(int, quoted[0].split(":"))
        taken = time.replace(hour=hour, minute=minute)
        taken = taken if taken <= time else taken - timedelta(days=1)
        stamp = taken.isoformat()
        there = {sign["code"]["text"]: _value(sign) for sign in signs if sign["effectiveDateTime"] == stamp}
        pressure = [value for value in there.values() if value.endswith("mmHg")]
        expected = dict(zip(CODES, quoted[1:], strict=True))
        same = all(there.get(code) == expected[code] for code in CODES if code != "BP") and expected["BP"] in pressure
        tally.check(same, name, quoted, there)


def _category(observation: Resource) -> str:
    return str(observation["category"][0]["coding"][0]["code"])


def _value(observation: Resource) -> str:
    if "valueString" in observation:
        return str(observation["valueString"])
    value = observation["valueQuantity"]["value"]
    return str(value)
