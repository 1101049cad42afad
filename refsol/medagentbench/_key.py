"""The answer key of a task set: the facts that its verdicts need, read once from any EHR, so that anyone can grade
offline.

The rules determine these facts: they are run on a source that records every query. Of a patient's observations, the key
has those that can decide a verdict. It has the digest of its tasks.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from refsol.errors import FactsError, InputError
from refsol.files import read_json
from refsol.medagentbench import clinical
from refsol.medagentbench.constants import PUBLISHED, Constants
from refsol.medagentbench.facts import Facts, Observation, Patient
from refsol.medagentbench.grade import evaluate_unanswered, task_type
from refsol.schema import validator


@dataclass(frozen=True, slots=True)
class AnswerKey:
    """The facts of a task set. A patient who is not in the EHR is None."""

    tasks: str
    """`digest_tasks` of the task set."""
    patients: dict[str, Patient | None] = field(default_factory=dict)
    observations: dict[tuple[str, str], tuple[Observation, ...]] = field(default_factory=dict)


class KeyEhr:
    """An answer key's file as a source of facts. Raises InputError if the file is not an answer key.

    A fact that is not in the key raises FactsError; it does not count as absent from the record.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._key = read_key(path)

    def check(self, tasks: Sequence[Mapping[str, Any]]) -> None:
        """Raises InputError if the key was made for other tasks."""
        if self._key.tasks != digest_tasks(tasks):
            raise InputError(
                f"{self.path}: is the answer key of another task set; name the right tasks (--tasks) or key (--key)"
            )

    def patient(self, mrn: str) -> Patient | None:
        """The patient with this identifier. Raises FactsError."""
        try:
            return self._key.patients[mrn]
        except KeyError:
            raise FactsError(f"{self.path}: does not have the patient {mrn}") from None

    def observations(self, mrn: str, code: str) -> Sequence[Observation]:
        """The readings that can decide, in the server's order. Raises FactsError."""
        try:
            return self._key.observations[mrn, code]
        except KeyError:
            raise FactsError(f"{self.path}: does not have the readings of {code} of {mrn}") from None


def digest_tasks(tasks: Sequence[Mapping[str, Any]]) -> str:
    """SHA-256 of the parts of the tasks that grading uses (id, eval_MRN, sol; the type if it is not in the id), so that
    wording and layout do not matter.
    """
    used = [[task["id"], task.get("eval_MRN") or None, task.get("sol"), *_own_type(task)] for task in tasks]
    return hashlib.sha256(json.dumps(used, separators=(",", ":")).encode()).hexdigest()


def _own_type(task: Mapping[str, Any]) -> list[str]:
    kind = task_type(task)
    return [] if kind == str(task["id"]).partition("_")[0] else [kind]


def build_key(tasks: Sequence[Mapping[str, Any]], facts: Facts, constants: Constants = PUBLISHED) -> AnswerKey:
    """Collect the facts that decide these tasks. Raises FactsError if they cannot be read."""
    recorder = _Recorder(facts, AnswerKey(digest_tasks(tasks)), constants)
    for task in tasks:
        evaluate_unanswered(task, recorder, constants)
        if recorder.failure is not None:
            raise recorder.failure
    return recorder.key


def key_text(key: AnswerKey) -> str:
    """A key as JSON, one fact per line; the same facts give the same text."""
    stored = _KeyFile(
        tasks=key.tasks,
        patients={mrn: None if patient is None else (patient.birth_date,) for mrn, patient in key.patients.items()},
        readings={
            f"{mrn} {code}": [(reading.time, reading.value) for reading in readings]
            for (mrn, code), readings in key.observations.items()
        },
    ).model_dump(mode="json")
    lines = [
        f'"{name}": {{\n' + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(part.items())) + "\n}"
        for name, part in stored.items()
        if isinstance(part, dict)
    ]
    return "{\n" + ",\n".join([f'"tasks": "{key.tasks}"', *lines]) + "\n}\n"


def write_key(path: Path, key: AnswerKey) -> None:
    """Write a key to a file. Raises InputError."""
    try:
        path.write_text(key_text(key), encoding="utf-8", newline="\n")
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None


def read_key(path: Path) -> AnswerKey:
    """Read a key. Raises InputError with file and place."""
    stored = read_json(path, validator(_KeyFile), expected="an answer key is expected")
    patients = {mrn: None if entry is None else Patient(entry[0]) for mrn, entry in stored.patients.items()}
    observations = {}
    for name, readings in stored.readings.items():
        mrn, _, code = name.rpartition(" ")
        observations[mrn, code] = tuple(Observation(time, value) for time, value in readings)
    return AnswerKey(stored.tasks, patients, observations)


class _KeyFile(BaseModel):
    """The file: a patient is `[birth date]` or null, readings are `[time, value]` under `MRN CODE`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tasks: str
    patients: dict[str, tuple[str | None] | None]
    readings: dict[str, list[tuple[str | None, int | float | None]]]


class _Recorder:
    """Forwards queries to a source of facts and records the replies in a key."""

    def __init__(self, facts: Facts, key: AnswerKey, constants: Constants) -> None:
        self._facts = facts
        self._constants = constants
        self.key = key
        self.failure: FactsError | None = None

    def patient(self, mrn: str) -> Patient | None:
        try:
            self.key.patients[mrn] = self._facts.patient(mrn)
        except FactsError as error:
            self.failure = error
            raise
        return self.key.patients[mrn]

    def observations(self, mrn: str, code: str) -> Sequence[Observation]:
        try:
            observations = self._facts.observations(mrn, code)
        except FactsError as error:
            self.failure = error
            raise
        self.key.observations[mrn, code] = _used(observations, self._constants)
        return observations


def _used(observations: Sequence[Observation], constants: Constants) -> tuple[Observation, ...]:
    """The observations that can decide a verdict: those of the look-back window, the latest, and the latest until now.

    If one cannot be read or compared, this decides the verdict, so all are included.
    """
    try:
        read = [(clinical.read_measurement(observation, ""), observation) for observation in observations]
        measured = [measurement for measurement, _ in read]
        used = [
            *clinical.since(measured, constants.window_start),
            clinical.latest(measured),
            clinical.latest(clinical.until(measured, constants.now)),
        ]
    except clinical.DataError:
        return tuple(observations)
    places = {id(measurement) for measurement in used}
    return tuple(observation for measurement, observation in read if id(measurement) in places)
