"""The charts of a hospital, as the generator reads them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from medagent.benchmarks.fhiragentbench._chart_lookup import CODED, LOINC, entries
from medagent.benchmarks.fhiragentbench.generator.wording import Lookup, coded_names

_SHARED = ("Location", "Medication")
_OWN = ("Patient", "Encounter", "Condition", "MedicationRequest", "Procedure", "Observation", "Specimen")
_TYPES: Mapping[str, Sequence[str]] = {
    "patient": ("Patient",),
    "drug": ("MedicationRequest", "Medication"),
    "procedure": ("Procedure",),
    "diagnosis": ("Condition",),
    "careunit": ("Location",),
    "microbiology": ("Specimen",),
}
"""The resource types for each kind of lookup, in addition to Observation and Encounter (which contains the windows)."""
_GROUPS = {"lab": "laboratory", "output": "survey", "microbiology": "microbiology"}


class Chart:
    """One patient's resources."""

    def __init__(self, patient: str, shared: Mapping[str, list[Any]]) -> None:
        self.patient = patient
        self.by_type: dict[str, list[Any]] = defaultdict(
            list, {name: list(resources) for name, resources in shared.items()}
        )
        self._observations: dict[str, list[Any]] = defaultdict(list)
        self._entries: dict[str, list[dict[str, Any]]] = {}

    def add(self, resource: dict[str, Any]) -> None:
        """Add a resource of the patient."""
        self.by_type[resource["resourceType"]].append(resource)
        if resource["resourceType"] == "Observation":
            for key in _keys(resource):
                self._observations[key].append(resource)

    def resources(self, lookup: Lookup) -> list[Any]:
        """The resources that may contain entries for a lookup."""
        kind, names = lookup["kind"], lookup.get("names", ())
        chosen = [resource for name in ("Encounter", *_TYPES.get(kind, ())) for resource in self.by_type[name]]
        if kind in CODED:
            narrow = names and kind != "microbiology"
            keys = {name.split("/")[0] for name in names} if narrow else {_GROUPS[kind]}
            chosen += [observation for key in keys for observation in self._observations[key]]
        return chosen

    def everything(self, kind: str) -> Sequence[dict[str, Any]]:
        """All entries of a kind whose names questions can use."""
        if kind not in self._entries:
            lookup = {"kind": kind, "op": "count", "window": ["ever"]}
            if kind in CODED:
                lookup["names"] = list(coded_names(kind).values())
            self._entries[kind] = entries(lookup, "", self.resources(lookup))
        return self._entries[kind]


def _keys(observation: dict[str, Any]) -> Sequence[str]:
    """The code of an Observation, and its group."""
    coding = observation["code"]["coding"][0]
    group = observation["category"][0]["coding"][0]["code"] if coding["system"] == LOINC else "microbiology"
    return coding["code"], group


def read_charts(lines: Iterable[str]) -> list[Chart]:
    """Read the charts from a hospital's lines. Each line is a resource as compact JSON that begins with its type."""
    shared: dict[str, list[Any]] = defaultdict(list)
    by_patient: dict[str, list[Any]] = defaultdict(list)
    for line in lines:
        kind = line[17 : line.index('"', 17)]  # after {"resourceType":"
        if kind in _SHARED:
            shared[kind].append(json.loads(line))
        elif kind in _OWN:
            resource = json.loads(line)
            by_patient[
                resource["id"] if kind == "Patient" else resource["subject"]["reference"].partition("/")[2]
            ].append(resource)
    charts = []
    for patient, resources in by_patient.items():
        chart = Chart(patient, shared)
        for resource in resources:
            chart.add(resource)
        charts.append(chart)
    return charts
