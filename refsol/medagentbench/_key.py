"""The answer key of a task set: the facts that its verdicts need, read once from any EHR, so that anyone can grade
offline.

The rules determine these facts: they are run on a source that records every search. Of a patient's observations, the
key contains only those that can decide a verdict. It also contains the digest of its tasks.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from refsol.clinical.sources import Resource, Source
from refsol.clinical.task_type import UngradableError, task_type
from refsol.errors import DataFault, FactsError, InputError
from refsol.files import read_json
from refsol.json_values import as_object
from refsol.medagentbench.constants import PUBLISHED, Constants
from refsol.medagentbench.grade import chart_of, type_of
from refsol.medagentbench.rules import OFFICIAL
from refsol.schema import validator


class AnswerKey(BaseModel):
    """The facts of a task set, as in its file.

    `tasks` is the digest of the task set. A patient is `[birth date]`, or null if the patient is not in the EHR.
    Readings are `[time, value]` under `MRN CODE`, in the server's order.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    tasks: str
    patients: dict[str, tuple[str | None] | None] = {}
    readings: dict[str, list[tuple[str | None, int | float | None]]] = {}


class KeyEhr:
    """An answer key's file as a source of charts. Raises InputError if the file is not an answer key.

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

    def search(self, kind: str, **query: str) -> Sequence[Resource]:
        """The patient with an identifier, or a patient's readings of a code that can decide. Raises FactsError."""
        if kind == "Patient":
            mrn = query["identifier"]
            if mrn not in self._key.patients:
                raise FactsError(f"{self.path}: does not have the patient {mrn}")
            entry = self._key.patients[mrn]
            return [] if entry is None else [{"resourceType": "Patient", "birthDate": entry[0]}]
        name = f"{query['patient']} {query['code']}"
        if name not in self._key.readings:
            raise FactsError(f"{self.path}: does not have the readings of {query['code']} of {query['patient']}")
        return [
            {"resourceType": "Observation", "effectiveDateTime": time, "valueQuantity": {"value": value}}
            for time, value in self._key.readings[name]
        ]


def digest_tasks(tasks: Sequence[Mapping[str, Any]]) -> str:
    """SHA-256 of the parts of the tasks that grading uses (id, eval_MRN, sol; the type if it is not in the id), so that
    wording and layout do not matter.
    """
    used = [[task["id"], task.get("eval_MRN") or None, task.get("sol"), *_own_type(task)] for task in tasks]
    return hashlib.sha256(json.dumps(used, separators=(",", ":")).encode()).hexdigest()


def _own_type(task: Mapping[str, Any]) -> set[str]:
    return {task_type(task)} - {task_type({"id": task["id"]})}


def build_key(tasks: Sequence[Mapping[str, Any]], facts: Source, constants: Constants = PUBLISHED) -> AnswerKey:
    """Collect the facts that decide these tasks. Raises FactsError if they cannot be read."""
    key = AnswerKey(tasks=digest_tasks(tasks))
    for task in tasks:
        recorder = _Recorder(facts)
        used: dict[int, Resource] = {}
        complete = True
        for until_now in (False, True):
            try:
                chart = chart_of(task, recorder, OFFICIAL, constants)
                chart.until_now = until_now
                type_of(task, constants).ruled(chart)
            except UngradableError:
                continue
            except DataFault:  # what cannot be read or compared decides the verdict, so all is kept
                complete = False
                continue
            used |= {id(one): one for look in chart.looked for one in look.used}
        recorder.write(key, used if complete else None)
    return key


@dataclass(frozen=True, slots=True)
class _Recorder:
    """Forwards searches to a source, each once, and records the results. See `Source`."""

    source: Source
    results: dict[tuple[str, ...], Sequence[Resource]] = field(default_factory=dict)

    def search(self, kind: str, **query: str) -> Sequence[Resource]:
        key = (kind, *query.values())
        if key not in self.results:
            self.results[key] = self.source.search(kind, **query)
        return self.results[key]

    def write(self, key: AnswerKey, used: Mapping[int, Resource] | None) -> None:
        """Write the results into a key; of the readings only those that are used. None: all are used."""
        for (kind, patient, *rest), matches in self.results.items():
            if kind == "Patient":
                key.patients[patient] = (_text(matches[0].get("birthDate")),) if matches else None
            else:
                place = f"{patient} {''.join(rest)}"
                readings = [
                    *key.readings.get(place, []),
                    *(_reading(one) for one in matches if used is None or id(one) in used),
                ]
                key.readings[place] = [one for one in map(_reading, matches) if one in readings]


def _reading(resource: Resource) -> tuple[str | None, int | float | None]:
    value = as_object(resource.get("valueQuantity")).get("value")
    usable = isinstance(value, int | float) and not isinstance(value, bool)
    return _text(resource.get("effectiveDateTime")), value if usable else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def key_text(key: AnswerKey) -> str:
    """A key as JSON, one fact per line; the same facts give the same text."""
    lines = [
        f'"{name}": {{\n' + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(part.items())) + "\n}"
        for name, part in key.model_dump(mode="json").items()
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
    return read_json(path, validator(AnswerKey), expected="an answer key is expected")
