"""Finding a patient by name and birth date, and on which charts another answer is right. Only task1 needs it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from refsol.clinical.chart import Chart
from refsol.clinical.neighbours import PATIENT, Examples, Neighbour
from refsol.clinical.pairs import Hospital
from refsol.clinical.searches import is_patient, ref
from refsol.clinical.sources import Amendment, Resource
from refsol.json_values import objects
from refsol.verdict import Fact, show

_NOT_FOUND = "Patient not found"
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DATES = (
    re.compile(r"\b(?P<y>\d{4})-(?P<m>\d{2})-(?P<d>\d{2})\b"),
    re.compile(r"\b(?P<d>\d{1,2})[ -](?P<month>[A-Za-z]{3,9})[ -](?P<y>\d{4})\b"),
    re.compile(r"\b(?P<month>[A-Za-z]{3,9}) (?P<d>\d{1,2}), (?P<y>\d{4})\b"),
    re.compile(r"\b(?P<m>\d{1,2})/(?P<d>\d{1,2})/(?P<y>\d{4})\b"),
)
"""The forms in which a task writes a birth date."""
_NAME = re.compile(
    r"(?<![\w'’-])(?=(?P<first>[^\W\d_][\w'’-]+)(?P<comma>,?) (?P<second>[^\W\d_][\w'’-]+))"  # (?=: pairs overlap
)
"""Two neighbouring words: `Ann Lee` or `Lee, Ann`."""


def find_patient(chart: Chart) -> str:
    """The id of the patient whose name and birth date the instruction states, or that there is none."""
    instruction = str(chart.task.get("instruction") or "")
    born = next(_dates(instruction), None)
    patients = chart.source.search("Patient", birthdate=born.date().isoformat()) if born else ()
    for patient in patients:
        if any(_is_named(name, instruction) for name in objects(patient.get("name"))):
            return str(patient["id"])
    return _NOT_FOUND


def other_patients(chart: Chart, hospital: Hospital, rng: Random) -> Iterator[Amendment]:
    """Changes of a name or a birth date after which another answer is right (see `find_patient`)."""
    instruction = str(chart.task.get("instruction") or "")
    born, named = next(_dates(instruction), None), _name(instruction)
    if born is None or named is None:
        return
    day, name = born.date().isoformat(), {"family": named["family"], "given": named["given"].split()}
    people = rng.sample(hospital.patients, len(hospital.patients))
    same_name = [
        person for person in people if any(_is_named(each, instruction) for each in objects(person.get("name")))
    ]
    same_day = [person for person in people if person.get("birthDate") == day]
    both = [person for person in same_name if person in same_day]
    for person in both:
        days = timedelta(days=rng.choice((-1, 1)) * rng.randint(1, 400))
        yield [{**person, "birthDate": (born + days).date().isoformat()}]
        yield from (
            [_renamed(person, rng.choice(objects(namesake.get("name"))))]
            for namesake in people[:3]
            if namesake != person
        )
    if not both:
        yield from ([{**person, "birthDate": day}] for person in same_name)
        yield from ([_renamed(person, name)] for person in same_day)


def _renamed(patient: Resource, name: Mapping[str, Any]) -> Resource:
    first, *others = objects(patient.get("name"))
    return {
        **patient,
        "name": [{**first, **{part: name[part] for part in ("family", "given") if part in name}}, *others],
    }


def _is_named(name: Mapping[str, Any], words: str) -> bool:
    """Whether a text has this name, as `Given Family` or `Family, Given`."""
    first, family = re.escape(" ".join(name.get("given", []))), re.escape(name.get("family", ""))
    return re.search(rf"(?<![\w'-])({first} {family}|{family}, {first})(?![\w'-])", words) is not None


def note_patient(chart: Chart, sol: Any) -> None:
    """Record that an agent must have read the patients of an answer, or looked for one who does not exist."""
    answers = tuple(map(str, sol)) if isinstance(sol, list) else ()
    facts = (Fact("sol", show(sol), None, None, "the right answer"),)
    chart.required = (NamedPatient(answers, facts, str(chart.task.get("instruction") or "")),)


@dataclass(frozen=True, slots=True)
class NamedPatient:
    """The patient with a name and a birth date, who has one of the MRNs `answers` or does not exist. See `Evidence`."""

    answers: tuple[str, ...]
    facts: tuple[Fact, ...]
    instruction: str

    @property
    def words(self) -> str:
        """See `Evidence.words`."""
        if self.answers == (_NOT_FOUND,):
            return "a complete search of Patient by name or birth date"
        return " and ".join(f"Patient {answer}" for answer in self.answers)

    def resources(self, shown: Sequence[Resource]) -> list[Resource]:
        """See `Evidence.resources`: the patients of the answers."""
        if self.answers == (_NOT_FOUND,):
            return []
        patients = list[Resource]()
        for answer in self.answers:
            parts = [resource for resource in shown if is_patient(resource, answer)]
            least = {"resourceType": "Patient", "id": answer, "identifier": [{"value": answer}], **self._stated}
            patients.append({**least, **{name: value for part in parts for name, value in part.items()}})
        return patients

    @property
    def _stated(self) -> dict[str, Any]:
        """The name and the birth date in the text; empty if they cannot be told."""
        born, named = next(_dates(self.instruction), None), _name(self.instruction)
        if born is None or named is None:
            return {}
        name = {"family": named["family"], "given": named["given"].split()}
        return {"name": [name], "birthDate": born.date().isoformat()}

    def neighbours(self, shown: Sequence[Resource], examples: Examples) -> list[Neighbour]:
        """See `Evidence.neighbours`. The patient does not exist or has another name or birth date; or there is one."""
        neighbours = [
            neighbour
            for patient in self.resources(shown)
            for neighbour in (
                Neighbour(f"no Patient {patient['id']}", {ref(patient): None}),
                _with(patient, "name", [{"family": "Another", "given": ["Another"]}]),
                _with(patient, "birthDate", "1900-01-01"),
            )
        ]
        if neighbours or not self._stated:
            return neighbours
        least = {"resourceType": "Patient", "identifier": [{"value": PATIENT}]}
        words = "a patient with this name and birth date"
        return [
            Neighbour(words, added={**example, **self._stated, "id": "added"})
            for example in examples.get("Patient") or (least,)
        ]


def _with(patient: Resource, element: str, value: Any) -> Neighbour:
    return Neighbour(f"another {element} of Patient {patient['id']}", {ref(patient): {**patient, element: value}})


def _name(instruction: str) -> dict[str, str] | None:
    """The family and given name: the last two neighbouring names before the birth date."""
    dates = [match.start() for pattern in _DATES for match in pattern.finditer(instruction)]
    pairs = [
        match
        for match in _NAME.finditer(instruction, 0, min(dates, default=len(instruction)))
        if _starts_a_name(match["first"]) and _starts_a_name(match["second"])
    ]
    if not pairs:
        return None
    first, second = pairs[-1]["first"], pairs[-1]["second"]
    return {"family": first, "given": second} if pairs[-1]["comma"] else {"family": second, "given": first}


def _starts_a_name(word: str) -> bool:
    """Whether a word begins with a capital letter and is not an abbreviation such as MRN."""
    return word[0].isupper() and not word.isupper()


def _dates(words: str) -> Iterator[datetime]:
    """The dates in a text, by form."""
    for pattern in _DATES:
        for match in pattern.finditer(words):
            parts = match.groupdict()
            try:
                month = int(parts["m"]) if "m" in parts else _MONTHS.index(parts["month"][:3].lower()) + 1
                yield datetime(int(parts["y"]), month, int(parts["d"]), tzinfo=UTC)
            except ValueError:
                continue
