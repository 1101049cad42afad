"""Finding a patient by name and birth date, and whether an agent did so. Only task1 needs it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from refsol.clinical.chart import Chart
from refsol.clinical.pairs import Hospital
from refsol.clinical.searches import is_patient
from refsol.clinical.sources import Amendment, Resource
from refsol.json_values import objects
from refsol.reads import FORM, Query, Read, pages, spares_time
from refsol.resources import escaped_values
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
_NAME_PARAMETER = re.compile(r"(?P<field>family|given)(:(exact|contains))?")


def find_patient(chart: Chart) -> str:
    """The id of the patient whose name and birth date the instruction states, or that there is none."""
    instruction = str(chart.task.get("instruction") or "")
    born = next(_dates(instruction), None)
    patients = chart.source.search("Patient", birthdate=born.date().isoformat()) if born else ()
    for patient in patients:
        if any(_is_named(name, instruction) for name in objects(patient.get("name"))):
            return str(patient["id"])
    return _NOT_FOUND


def other_patients(chart: Chart, hospital: Hospital, dice: Random) -> Iterator[Amendment]:
    """Changes of a name or a birth date after which another answer is right (see `find_patient`)."""
    instruction = str(chart.task.get("instruction") or "")
    born, named = next(_dates(instruction), None), _name(instruction)
    if born is None or named is None:
        return
    day, name = born.date().isoformat(), {"family": named["family"], "given": named["given"].split()}
    people = dice.sample(hospital.patients, len(hospital.patients))
    same_name = [one for one in people if any(_is_named(each, instruction) for each in objects(one.get("name")))]
    same_day = [one for one in people if one.get("birthDate") == day]
    both = [one for one in same_name if one in same_day]
    for one in both:
        days = timedelta(days=dice.choice((-1, 1)) * dice.randint(1, 400))
        yield [{**one, "birthDate": (born + days).date().isoformat()}]
        yield from ([_renamed(one, dice.choice(objects(other.get("name"))))] for other in people[:3] if other != one)
    if not both:
        yield from ([{**one, "birthDate": day}] for one in same_name)
        yield from ([_renamed(one, name)] for one in same_day)


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
    answers = tuple(str(one) for one in sol) if isinstance(sol, list) else ()
    facts = (Fact("sol", show(sol), None, None, "the right answer"),)
    chart.required = (_Lookup(answers, facts, chart.task),)


@dataclass(frozen=True, slots=True)
class _Lookup:
    """What an agent must have read to give these answers. See `Needed`."""

    answers: tuple[str, ...]
    facts: tuple[Fact, ...]
    task: Mapping[str, Any]

    def unread(self, reads: Sequence[Read]) -> list[str]:
        if self.answers != (_NOT_FOUND,):
            return [f"Patient {answer}" for answer in self.answers if not _is_read(answer, reads)]
        done = any(self._looks_for(read) and pages(reads, read)[1] for read in reads)
        return [] if done else ["a complete search of Patient by name or birth date"]

    def _looks_for(self, read: Read) -> bool:
        """Whether a search of Patient, by name or birth date from the task's text or without either, must return the
        right patient.
        """
        if not read.path.endswith("/Patient") or not read.is_bundle or read.only_counts:
            return False
        nobody = Query("Patient", "")
        return all(
            FORM[name](value, nobody) if name in FORM else self._fits(name, value)
            for name, values in read.parameters.items()
            for value in values
        )

    def _fits(self, name: str, value: str) -> bool:
        instruction = str(self.task.get("instruction") or "")
        if name == "birthdate":
            days = list(_dates(f"{self.task.get('context') or ''}\n{instruction}"))
            return any(spares_time(part, (day, day)) for part in escaped_values(value) for day in days)
        parameter, names = _NAME_PARAMETER.fullmatch(name), _name(instruction)
        if parameter is None or names is None:
            return False
        named = names[parameter["field"]]
        if name.endswith(":exact"):
            return named in escaped_values(value)
        return any(named.lower().startswith(part.strip().lower()) for part in escaped_values(value))


def _is_read(answer: str, reads: Sequence[Read]) -> bool:
    return any(is_patient(one, answer) for read in reads for one in read.resources)


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
