"""The answer key of a task set: the facts its verdicts rest on, taken once from any EHR, so that anyone grades offline.

Which facts those are, the rules say themselves: they are run against an EHR that remembers what it was asked. Of a
patient's readings the key keeps those that can decide a verdict. A key carries the digest of the tasks it was made for.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from refsol.errors import FactsError, InputError
from refsol.medagentbench import facts
from refsol.medagentbench.ehr import Ehr, Patient, Reading
from refsol.medagentbench.grade import rule_on


@dataclass(frozen=True, slots=True)
class AnswerKey:
    """The facts of a task set. A patient who is not in the EHR stands there as None."""

    tasks: str
    """`digest_tasks` of the task set."""
    patients: dict[str, Patient | None] = field(default_factory=dict)
    readings: dict[tuple[str, str], tuple[Reading, ...]] = field(default_factory=dict)


class KeyEhr:
    """An answer key's file as an EHR. Raises InputError where the file is no answer key.

    What the key does not hold is a FactsError, not an absence.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._key = read_key(path)

    def check(self, tasks: Sequence[Mapping[str, Any]]) -> None:
        """Raises InputError where the key was made for other tasks."""
        if self._key.tasks != digest_tasks(tasks):
            raise InputError(
                f"{self.path}: is the answer key of another task set; name the right tasks (--tasks) or key (--key)"
            )

    def patient(self, mrn: str) -> Patient | None:
        """The patient with this identifier. Raises FactsError."""
        try:
            return self._key.patients[mrn]
        except KeyError:
            raise FactsError(f"{self.path}: does not hold the patient {mrn}") from None

    def observations(self, mrn: str, code: str) -> Sequence[Reading]:
        """The readings that matter, in the server's order. Raises FactsError."""
        try:
            return self._key.readings[mrn, code]
        except KeyError:
            raise FactsError(f"{self.path}: does not hold the readings of {code} of {mrn}") from None


def digest_tasks(tasks: Sequence[Mapping[str, Any]]) -> str:
    """SHA-256 of what grading uses of the tasks (id, eval_MRN, sol), so that wording and layout do not matter."""
    used = [[task["id"], task.get("eval_MRN") or None, task.get("sol")] for task in tasks]
    return hashlib.sha256(json.dumps(used, separators=(",", ":")).encode()).hexdigest()


def build_key(tasks: Sequence[Mapping[str, Any]], ehr: Ehr) -> AnswerKey:
    """Take the facts of these tasks from an EHR. Raises FactsError where they cannot be read."""
    recorder = _Recorder(ehr, AnswerKey(digest_tasks(tasks)))
    for task in tasks:
        rule_on(task, recorder)
        if recorder.failure is not None:
            raise recorder.failure
    return recorder.key


def write_key(path: Path, key: AnswerKey) -> None:
    """Write a key as JSON, one fact a line, the same bytes for the same facts. Raises InputError."""
    stored = _KeyFile(
        tasks=key.tasks,
        patients={mrn: None if patient is None else (patient.birth_date,) for mrn, patient in key.patients.items()},
        readings={
            f"{mrn} {code}": [(reading.time, reading.value) for reading in found]
            for (mrn, code), found in key.readings.items()
        },
    ).model_dump(mode="json")
    lines = [
        f'"{name}": {{\n' + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(part.items())) + "\n}"
        for name, part in stored.items()
        if isinstance(part, dict)
    ]
    text = "{\n" + ",\n".join([f'"tasks": "{key.tasks}"', *lines]) + "\n}\n"
    try:
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None


def read_key(path: Path) -> AnswerKey:
    """Read a key. Raises InputError naming the file and the place."""
    try:
        stored = _KeyFile.model_validate(json.loads(path.read_bytes()))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise InputError(f"{path}: is no answer key: at {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: is no answer key: {error}") from None
    patients = {mrn: None if entry is None else Patient(entry[0]) for mrn, entry in stored.patients.items()}
    readings = {}
    for name, found in stored.readings.items():
        mrn, _, code = name.rpartition(" ")
        readings[mrn, code] = tuple(Reading(time, value) for time, value in found)
    return AnswerKey(stored.tasks, patients, readings)


class _KeyFile(BaseModel):
    """The file: a patient is `[birth date]` or null, readings are `[time, value]` under `MRN CODE`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tasks: str
    patients: dict[str, tuple[str | None] | None]
    readings: dict[str, list[tuple[str | None, int | float | None]]]


class _Recorder:
    """An EHR that passes questions on and notes the answers in a key."""

    def __init__(self, ehr: Ehr, key: AnswerKey) -> None:
        self._ehr = ehr
        self.key = key
        self.failure: FactsError | None = None

    def patient(self, mrn: str) -> Patient | None:
        try:
            self.key.patients[mrn] = self._ehr.patient(mrn)
        except FactsError as error:
            self.failure = error
            raise
        return self.key.patients[mrn]

    def observations(self, mrn: str, code: str) -> Sequence[Reading]:
        try:
            found = self._ehr.observations(mrn, code)
        except FactsError as error:
            self.failure = error
            raise
        self.key.readings[mrn, code] = _used(found)
        return found


def _used(found: Sequence[Reading]) -> tuple[Reading, ...]:
    """The readings that can decide a verdict: of the last day, the latest, and the latest until now.

    Where one cannot be read or compared, that decides, and all are kept.
    """
    try:
        read = [(facts.read_lab(reading, ""), reading) for reading in found]
        labs = [lab for lab, _ in read]
        kept = [*facts.since(labs, facts.DAY_AGO), facts.latest(labs), facts.latest(facts.until(labs, facts.NOW))]
    except facts.DataError:
        return tuple(found)
    places = {id(lab) for lab in kept}
    return tuple(reading for lab, reading in read if id(lab) in places)
