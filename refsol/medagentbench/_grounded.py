"""Whether an agent read the deciding data of an item before it acted. The table is in docs/grading.md.

This measures reading, not use: an agent that fetches the whole chart and ignores it is grounded whenever it is right.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from refsol.history import HistoryMessage
from refsol.json_values import objects
from refsol.medagentbench._deciding import deciding_test
from refsol.medagentbench.constants import PUBLISHED, Constants
from refsol.medagentbench.grade import task_type
from refsol.medagentbench.tasks import LOINC
from refsol.reads import FORM, LABORATORY, Grounds, Query, Read, grounds_of, has_reading, pages, searched, spares_time
from refsol.verdict import Verdict

NEEDS_NO_READING = frozenset({"task3", "task8"})
"""Types whose text has everything."""
_NOT_FOUND = "Patient not found"
_IN_WINDOW = frozenset({"task4", "task5", "task6"})
"""Types that ask for results of the look-back window."""
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


def grounds(
    task: Mapping[str, Any],
    verdict: Verdict,
    transcript: Sequence[HistoryMessage],
    constants: Constants = PUBLISHED,
) -> Grounds:
    """The grounds of an item. `transcript` is empty if none with reads is stored."""
    needed = None if task_type(task) in NEEDS_NO_READING else partial(_unread, task, verdict, constants)
    return grounds_of(verdict.correct, needed, transcript)


def _unread(task: Mapping[str, Any], verdict: Verdict, constants: Constants, reads: Sequence[Read]) -> list[str]:
    """The deciding data that is missing from the reads, as texts. `facts` are the facts of the verdict."""
    kind, patient = task_type(task), str(task.get("eval_MRN") or "")
    if kind == "task1":
        return _unread_patient(task, reads)
    if kind == "task2":
        born = any(_is_patient(one, patient) and one.get("birthDate") for read in reads for one in read.resources)
        return [] if born else [f"the birthDate of {patient}"]
    test = deciding_test(kind, constants)
    facts = verdict.because.facts if verdict.because else ()
    if test is None:
        return []
    if times := [fact.time for fact in facts if fact.time is not None]:
        return [f"{test.code} at {time}" for time in times if not has_reading(reads, patient, test.code, time)]
    window = (constants.window_start, constants.now) if kind in _IN_WINDOW else None
    query = Query("Observation", patient, f"{LOINC}|{test.code}", window=window, category=LABORATORY)
    return [] if searched(reads, query) else [f"a complete search of {test.code}"]


def _unread_patient(task: Mapping[str, Any], reads: Sequence[Read]) -> list[str]:
    answers = [str(one) for one in task.get("sol") or []]
    if answers != [_NOT_FOUND]:
        return [
            f"Patient {answer}"
            for answer in answers
            if not any(_is_patient(one, answer) for read in reads for one in read.resources)
        ]
    done = any(_looks_for(read, task) and pages(reads, read)[1] for read in reads)
    return [] if done else ["a complete search of Patient by name or birth date"]


def _is_patient(resource: Mapping[str, Any], mrn: str) -> bool:
    known = [resource.get("id"), *(one.get("value") for one in objects(resource.get("identifier")))]
    return resource.get("resourceType") == "Patient" and mrn in known


def _looks_for(read: Read, task: Mapping[str, Any]) -> bool:
    """Whether a search of Patient, by name or birth date from the task's text or without either, must return the right
    patient.
    """
    if not read.path.endswith("/Patient") or not read.is_bundle or read.only_counts:
        return False
    nobody = Query("Patient", "")
    return all(
        FORM[name](value, nobody) if name in FORM else _fits(name, value, task)
        for name, values in read.parameters.items()
        for value in values
    )


def _fits(name: str, value: str, task: Mapping[str, Any]) -> bool:
    instruction = str(task.get("instruction") or "")
    if name == "birthdate":
        days = _dates(f"{task.get('context') or ''}\n{instruction}")
        return any(spares_time(part, (day, day)) for part in value.split(",") for day in days)
    parameter, names = _NAME_PARAMETER.fullmatch(name), _name(instruction)
    if parameter is None or names is None:
        return False
    named = names[parameter["field"]]
    if name.endswith(":exact"):
        return named in value.split(",")
    return any(named.lower().startswith(part.strip().lower()) for part in value.split(","))


def _name(instruction: str) -> dict[str, str] | None:
    """The family and given name: the last two neighbouring names before the birth date."""
    dates = [match.start() for pattern in _DATES for match in pattern.finditer(instruction)]
    pairs = [
        match
        for match in _NAME.finditer(instruction, 0, min(dates, default=len(instruction)))
        if _is_name(match["first"]) and _is_name(match["second"])
    ]
    if not pairs:
        return None
    first, second = pairs[-1]["first"], pairs[-1]["second"]
    return {"family": first, "given": second} if pairs[-1]["comma"] else {"family": second, "given": first}


def _is_name(word: str) -> bool:
    """Whether a word begins with a capital letter and is not an abbreviation such as MRN."""
    return word[0].isupper() and not word.isupper()


def _dates(words: str) -> list[datetime]:
    dates = []
    for pattern in _DATES:
        for match in pattern.finditer(words):
            parts = match.groupdict()
            try:
                month = int(parts["m"]) if "m" in parts else _MONTHS.index(parts["month"][:3].lower()) + 1
                dates.append(datetime(int(parts["y"]), month, int(parts["d"]), tzinfo=UTC))
            except ValueError:
                continue
    return dates
