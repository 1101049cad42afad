"""Evaluates the published expression of each question over the patients of a run.

A question counts only if its expression gives the published answer there. The expressions were written for another
server's copy of the MIMIC-IV demo, whose systems have other addresses, and are evaluated over a Bundle of the patient's
resources, in the order of type and id, with the medications, places and organizations to which they refer.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fhir_server import FhirPathError, Server, fhirpath
from medagent import UserError

SYSTEMS = {
    "http://fhir.mimic.mit.edu/CodeSystem/": "http://mimic.mit.edu/fhir/mimic/CodeSystem/mimic-",
    "http://fhir.mimic.mit.edu/identifier/": "http://mimic.mit.edu/fhir/mimic/identifier/",
}
"""The beginnings of addresses in the expressions, and in MIMIC-IV on FHIR 2.1.0."""
STEPS = 50_000_000
"""The most steps of an expression. Some patients have more than 10,000 resources."""
NO_PATIENT = "the patient is not in the data"
NOT_EVALUATED = "the expression cannot be evaluated"
NOTHING = "the expression finds nothing, which is not the answer"
OTHER = "the expression gives another answer"
_REFERENCE = re.compile(r'"reference"\s*:\s*"([A-Za-z]+/[^"/]+)"')


class Patients:
    """The patients in a file of the embedded server."""

    def __init__(self, file: Path) -> None:
        self._of_patient: dict[str, dict[str, str]] = defaultdict(dict)
        self._shared: dict[str, str] = {}
        self._by_identifier: dict[str, str] = {}
        with Server.open(file) as server:
            for kind in server.stats():
                for line in server.export(kind):
                    self._add(kind, line)

    def _add(self, kind: str, line: str) -> None:
        resource = json.loads(line)
        name = f"{kind}/{resource['id']}"
        if kind == "Patient":
            self._of_patient[name][name] = line
            for identifier in resource.get("identifier", []):
                self._by_identifier[str(identifier.get("value"))] = name
            return
        patients = [reference for reference in _REFERENCE.findall(line) if reference.startswith("Patient/")]
        if patients:
            self._of_patient[patients[0]][name] = line
        else:
            self._shared[name] = line

    def bundle(self, identifier: str) -> dict[str, Any] | None:
        """The Bundle of the patient with this identifier; None if there is none."""
        patient = self._by_identifier.get(identifier)
        if patient is None:
            return None
        lines = dict(self._of_patient[patient])
        waiting = list(lines.values())
        while waiting:
            further = {name for name in _REFERENCE.findall(waiting.pop()) if name in self._shared and name not in lines}
            lines |= {name: self._shared[name] for name in further}
            waiting += [self._shared[name] for name in further]
        entries = [{"fullUrl": name, "resource": json.loads(lines[name])} for name in sorted(lines, key=_place)]
        return {"resourceType": "Bundle", "type": "collection", "entry": entries}


def _place(name: str) -> list[str]:
    return name.split("/")


class Evaluated(NamedTuple):
    """What the expression of a question gives. `reason` says why the question does not count; empty if it counts."""

    reason: str
    values: list[Any]


def evaluated(questions: Sequence[Mapping[str, Any]], file: Path) -> dict[str, Evaluated]:
    """What the expression of each question gives, by the question's id.

    Raises UserError if none of the patients is in the file.
    """
    patients = Patients(file)
    results = dict(_results(sorted(questions, key=lambda question: str(question["patient_id"])), patients))
    if all(result.reason == NO_PATIENT for result in results.values()):
        raise UserError(f"{file}: contains none of the patients of FHIRPath-QA; they are in the MIMIC-IV demo on FHIR")
    return results


def _results(questions: Sequence[Mapping[str, Any]], patients: Patients) -> Iterator[tuple[str, Evaluated]]:
    patient, bundle = "", None
    for question in questions:
        if question["patient_id"] != patient:
            patient = question["patient_id"]
            bundle = patients.bundle(patient)
        yield question["id"], Evaluated(NO_PATIENT, []) if bundle is None else _result(question, bundle)


def _result(question: Mapping[str, Any], bundle: dict[str, Any]) -> Evaluated:
    expression = str(question["query"])
    for beginning, instead in SYSTEMS.items():
        expression = expression.replace(beginning, instead)
    try:
        values = fhirpath(bundle, expression, steps=STEPS)
    except FhirPathError as error:
        return Evaluated(f"{NOT_EVALUATED}: {error}", [])
    values = json.loads(json.dumps(values, default=float))  # a computed decimal becomes a JSON number
    if same_values(values, json.loads(question["answer"])):
        return Evaluated("", values)
    return Evaluated(OTHER if values else NOTHING, values)


def same_values(answer: Any, target: Sequence[Any]) -> bool:
    """Whether an answer has exactly these values, in any order. 1 and 1.0 are equal, 1 and true or "1" are not."""
    return isinstance(answer, list) and sorted(map(_text, answer)) == sorted(map(_text, target))


def _text(value: Any) -> str:
    whole = isinstance(value, float) and value.is_integer()
    return json.dumps(int(value) if whole else value, sort_keys=True)
