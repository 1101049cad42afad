"""Deals the tasks of MedAgentBench: the shares of its types, the look-ups of task1, and the words of each task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

from fhir_server.synthetic.dice import Dice
from fhir_server.synthetic.people import FAMILIES, FEMALE, MALE
from medagent.benchmarks.dealing import Candidate, Hospital, Share, candidate, numbered
from medagent.benchmarks.medagentbench.generator._phrases import (
    NOT_FOUND,
    contexts,
    instruction,
    wordings,
    written_date,
)
from medagent.benchmarks.medagentbench.tasks.manifest import Split
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
_NONE: Share = (0, 1)
_MISSES = ("same name", "unknown", "same birth date")
"""How the person of a look-up without a match differs from a patient."""


def hospital_of(lines: Iterable[str], constants: Constants) -> Hospital:
    """The patients of a hospital and the readings of the four tests."""
    labs = (constants.magnesium, constants.potassium, constants.glucose, constants.a1c)
    return Hospital.read(lines, [f'"text":"{lab.code}"' for lab in labs])


class Dealer:
    """Deals the tasks of one set."""

    def __init__(self, dice: Dice, constants: Constants, hospital: Hospital, split: Split | None) -> None:
        self._dice, self._constants, self._hospital, self._split = dice, constants, hospital, split
        self._contexts = contexts(constants)

    def tasks(self, per_type: int) -> Iterator[dict[str, Any]]:
        """`per_type` tasks of each type. Raises UserError if the hospital contains too few patients for them."""
        for kind in TYPES:
            people = self._look_ups() if kind == "task1" else self._candidates(kind)
            templates = wordings(kind, self._split)
            turns = len(templates) if self._split == "train" else 1
            share = SHARES.get(kind, _NONE)
            for name, one, number in numbered(kind, people, share, per_type, len(templates), self._dice, turns):
                variant = self._dice.between(0, 11)
                text = instruction(templates[number], self._constants, variant, {"mrn": one.mrn, **one.words})
                fields = one.fields or {"eval_MRN": one.mrn}
                yield {"id": name, "instruction": text, "context": self._contexts[kind], **fields}

    def _candidates(self, kind: str) -> Iterator[Candidate]:
        for patient in self._hospital.living:
            chart = TaskChart(self._hospital.resources, patient["id"], self._constants.now, OFFICIAL)
            if (one := candidate(TYPES[kind](self._constants), chart)) is not None:
                yield one if kind != "task2" else self._by_birthday(one, date.fromisoformat(patient["birthDate"]))

    def _by_birthday(self, one: Candidate, born: date) -> Candidate:
        """A candidate for an age: whether the birthday is today, or comes before or after today."""
        today = self._constants.now.date()
        day, this_day = (born.month, born.day), (today.month, today.day)
        branch = "on" if day == this_day else "before" if day < this_day else "after"
        return replace(one, branch=branch, edge=False)

    def _look_ups(self) -> Iterator[Candidate]:
        """The look-ups by name and birth date: of each living patient, and of people like them who do not exist."""
        known = {_person(patient) for patient in self._hospital.patients}
        living = self._hospital.living
        for patient in living:
            mrn, person = patient["id"], _person(patient)
            branch = "namesake" if any(_are_namesakes(patient, other) for other in living) else "found"
            fields = {"sol": [mrn], "eval_MRN": mrn}
            yield Candidate(mrn, self._constants.now, branch, False, mrn, fields=fields, words=self._words(person))
            miss = self._dice.pick(_MISSES)
            while person in known:
                person = self._near_miss(miss, _person(patient))
            words, missed = self._words(person), {"sol": [NOT_FOUND]}
            yield Candidate(mrn, self._constants.now, miss, True, NOT_FOUND, fields=missed, words=words)

    def _words(self, person: tuple[str, str, date]) -> dict[str, str]:
        first_name, family, born = person
        return {"given": first_name, "family": family, "birth": written_date(born, self._dice.between(0, 3))}

    def _near_miss(self, miss: str, person: tuple[str, str, date]) -> tuple[str, str, date]:
        """A name and birth date similar to a patient's, or (`unknown`) unrelated ones."""
        dice, (first, family, birth) = self._dice, person
        if miss in ("same name", "unknown"):
            birth += timedelta(days=dice.pick((-365, -30, -10, -1, 1, 9, 31, 365)))
        if miss == "same birth date":
            first = dice.pick([name for name in (FEMALE if first in FEMALE else MALE) if name != first])
        if miss == "unknown":
            first, family = dice.pick(FEMALE + MALE), dice.pick(FAMILIES)
        return first, family, birth


def _person(patient: Mapping[str, Any]) -> tuple[str, str, date]:
    """Given name, family name and birth date."""
    name = patient["name"][0]
    return " ".join(name["given"]), name["family"], date.fromisoformat(patient["birthDate"])


def _are_namesakes(patient: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    (first, last, born), (other_first, other_last, other_born) = _person(patient), _person(other)
    return patient["id"] != other["id"] and last == other_last and (first == other_first or born == other_born)
