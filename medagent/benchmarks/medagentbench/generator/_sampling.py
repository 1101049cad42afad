"""Samples the tasks of MedAgentBench: the shares of its types, the look-ups of task1, and the words of each task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import date, timedelta
from functools import partial
from typing import Any

from fhir_server.synthetic.people import FAMILIES, FEMALE, MALE
from fhir_server.synthetic.seeded_random import SeededRandom
from medagent.benchmarks.clinical.sampling import NONE, Candidate, HospitalCharts, Share, candidate, numbered
from medagent.benchmarks.clinical.tasks import Task
from medagent.benchmarks.medagentbench.generator._phrases import (
    NOT_FOUND,
    contexts,
    instruction,
    wordings,
    written_date,
)
from medagent.engine.data_sets import Split
from refsol.clinical.one_page import is_right_by_one_page
from refsol.clinical.sources import Source
from refsol.medagentbench import TYPES
from refsol.medagentbench.constants import Constants
from refsol.medagentbench.rules import OFFICIAL, TaskChart

SHARES: Mapping[str, Share] = {
    "task1": (1, 6),
    "task4": (1, 6),
    "task5": (1, 4),
    "task6": (1, 6),
    "task7": (1, 10),
    "task9": (1, 6),
    "task10": (1, 2),
}
"""The share of tasks in which no patient matches, no reading exists, or no order is due."""
HIDDEN: Mapping[str, Share] = {"task7": (13, 30)}
"""The least share of tasks in which an agent that opens one page of each search, without sorting, is wrong. Only
glucose is measured often enough.
"""
_MISSES = ("same name", "unknown", "same birth date")
"""How the person of a look-up without a match differs from a patient."""


def hospital_of(lines: Iterable[str], constants: Constants) -> HospitalCharts:
    """The patients of a hospital and the readings of the four tests."""
    labs = (constants.magnesium, constants.potassium, constants.glucose, constants.a1c)
    return HospitalCharts.read(lines, [f'"text":"{lab.code}"' for lab in labs])


class TaskSampler:
    """Samples the tasks of one set."""

    def __init__(self, rng: SeededRandom, constants: Constants, hospital: HospitalCharts, split: Split | None) -> None:
        self._rng = rng
        self._constants = constants
        self._hospital = hospital
        self._split = split
        self._contexts = contexts(constants)

    def tasks(self, per_type: int) -> Iterator[Task]:
        """`per_type` tasks of each type. Raises UserError if the hospital contains too few patients for them."""
        for kind in TYPES:
            people = self._look_ups() if kind == "task1" else self._candidates(kind)
            templates = wordings(kind, self._split)
            turns = len(templates) if self._split == "train" else 1
            share, hidden = SHARES.get(kind, NONE), HIDDEN.get(kind, NONE)
            texts = len(templates)
            for name, person, number in numbered(kind, people, share, per_type, texts, self._rng, turns, hidden):
                variant = self._rng.between(0, 11)
                text = instruction(templates[number], self._constants, variant, {"mrn": person.mrn, **person.words})
                patient = "" if person.right == NOT_FOUND else person.mrn
                context = self._contexts[kind]
                yield Task(id=name, type=kind, patient=patient, text=text, context=context, fields=person.fields)

    def _candidates(self, name: str) -> Iterator[Candidate]:
        kind, resources = TYPES[name](self._constants), self._hospital.resources
        for patient in self._hospital.living:
            chart_of = partial(self._chart, patient["id"])
            person = candidate(kind, chart_of(resources))
            if person is None:
                continue
            if name == "task2":
                person = self._by_birthday(person, date.fromisoformat(patient["birthDate"]))
            if name in HIDDEN:
                person = replace(person, hidden=not is_right_by_one_page(kind, chart_of, resources))
            yield person

    def _chart(self, patient: str, source: Source) -> TaskChart:
        return TaskChart(source, patient, self._constants.now, OFFICIAL)

    def _by_birthday(self, candidate: Candidate, born: date) -> Candidate:
        """A candidate for an age: whether the birthday is today, or comes before or after today."""
        today = self._constants.now.date()
        day, this_day = (born.month, born.day), (today.month, today.day)
        branch = "on"
        if day != this_day:
            branch = "before" if day < this_day else "after"
        return replace(candidate, branch=branch, edge=False)

    def _look_ups(self) -> Iterator[Candidate]:
        """The look-ups by name and birth date: of each living patient, and of people like them who do not exist."""
        known = {_person(patient) for patient in self._hospital.patients}
        living = self._hospital.living
        for patient in living:
            mrn, person = patient["id"], _person(patient)
            branch = (
                "namesake" if any(_are_namesakes(patient, living_patient) for living_patient in living) else "found"
            )
            fields = {"sol": [mrn]}
            yield Candidate(mrn, self._constants.now, branch, False, mrn, fields=fields, words=self._words(person))
            miss = self._rng.pick(_MISSES)
            while person in known:
                person = self._near_miss(miss, _person(patient))
            words, missed = self._words(person), {"sol": [NOT_FOUND]}
            yield Candidate(mrn, self._constants.now, miss, True, NOT_FOUND, fields=missed, words=words)

    def _words(self, person: tuple[str, str, date]) -> dict[str, str]:
        first_name, family, born = person
        return {"given": first_name, "family": family, "birth": written_date(born, self._rng.between(0, 3))}

    def _near_miss(self, miss: str, person: tuple[str, str, date]) -> tuple[str, str, date]:
        """A name and birth date similar to a patient's, or (`unknown`) unrelated ones."""
        rng, (first, family, birth) = self._rng, person
        if miss in ("same name", "unknown"):
            birth += timedelta(days=rng.pick((-365, -30, -10, -1, 1, 9, 31, 365)))
        if miss == "same birth date":
            first = rng.pick([name for name in (FEMALE if first in FEMALE else MALE) if name != first])
        if miss == "unknown":
            first, family = rng.pick(FEMALE + MALE), rng.pick(FAMILIES)
        return first, family, birth


def _person(patient: Mapping[str, Any]) -> tuple[str, str, date]:
    """Given name, family name and birth date."""
    name = patient["name"][0]
    return " ".join(name["given"]), name["family"], date.fromisoformat(patient["birthDate"])


def _are_namesakes(patient: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    (first, last, born), (other_first, other_last, other_born) = _person(patient), _person(second)
    return patient["id"] != second["id"] and last == other_last and (first == other_first or born == other_born)
