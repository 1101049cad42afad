"""Turns a hospital's lines into the facts that the rules read, so that the rules can tell each chart's branch."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from refsol.medagentbench.constants import Constants
from refsol.medagentbench.facts import Observation, Patient


@dataclass(slots=True)
class Chart:
    """The data of a patient that tasks ask about. `readings` are by code, in the hospital's order."""

    mrn: str
    given: str
    family: str
    birth: date
    readings: dict[str, list[Observation]] = field(default_factory=dict)


class Charts:
    """The charts of a hospital's living patients. Implements `Facts`."""

    def __init__(self, constants: Constants) -> None:
        labs = (constants.magnesium, constants.potassium, constants.glucose, constants.a1c)
        self._marks = tuple((lab.code, f'"text":"{lab.code}"') for lab in labs)
        self._all: dict[str, Chart] = {}
        self.names: set[tuple[str, str, date]] = set()
        """Given name, family name and birth date of every patient, including those who died."""

    def read(self, lines: Iterable[str]) -> None:
        """Read the lines of a hospital."""
        for line in lines:
            if line.startswith('{"resourceType":"Patient"'):
                self._add(json.loads(line))
            elif line.startswith('{"resourceType":"Observation"'):
                for code, mark in self._marks:
                    if mark in line:
                        self._add_reading(code, json.loads(line))

    def living(self) -> list[Chart]:
        """The charts of the living patients, which tasks may be about."""
        return list(self._all.values())

    def patient(self, mrn: str) -> Patient | None:
        """See `Facts.patient`."""
        chart = self._all.get(mrn)
        return None if chart is None else Patient(chart.birth.isoformat())

    def observations(self, mrn: str, code: str) -> Sequence[Observation]:
        """See `Facts.observations`."""
        chart = self._all.get(mrn)
        return () if chart is None else chart.readings.get(code, ())

    def _add(self, patient: dict[str, Any]) -> None:
        mrn, name, born = patient["id"], patient["name"][0], date.fromisoformat(patient["birthDate"])
        chart = Chart(mrn, " ".join(name["given"]), name["family"], born)
        self.names.add((chart.given, chart.family, born))
        if "deceasedDateTime" not in patient:
            self._all[mrn] = chart

    def _add_reading(self, code: str, observation: dict[str, Any]) -> None:
        chart = self._all.get(observation["subject"]["identifier"]["value"])
        if chart is not None:
            reading = Observation(observation["effectiveDateTime"], observation["valueQuantity"]["value"])
            chart.readings.setdefault(code, []).append(reading)
