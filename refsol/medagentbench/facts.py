"""Sources of facts: the `Facts` protocol and two of its implementations. The third, `KeyEhr`, is in `key.py`.

A grader needs little: a patient's birth date, and the times and values of one patient's observations of one code in the
server's order (insertion order). FHIR JSON is converted to `Patient` and `Observation` here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from refsol.errors import FactsError
from refsol.files import InputFile, json_object
from refsol.json_values import as_object, objects
from refsol.resources import Ask, FhirSearches, codes, subject_id

PAGE = 5000
"""The number of observations on the one page that is read, as in the published grader."""


@dataclass(frozen=True, slots=True)
class Patient:
    """A patient. `birth_date` is the stored text."""

    birth_date: str | None


@dataclass(frozen=True, slots=True)
class Observation:
    """One Observation: `effectiveDateTime` as stored, and `valueQuantity.value`; None if missing."""

    time: str | None
    value: int | float | None


class Facts(Protocol):
    """Facts about patients. Both methods raise FactsError if the facts cannot be read."""

    def patient(self, mrn: str) -> Patient | None:
        """The first patient with this identifier, or None."""

    def observations(self, mrn: str, code: str) -> Sequence[Observation]:
        """The observations of `code` (MG, K, GLU, A1C) of the patient with this id, in the server's order."""


class NdjsonEhr:
    """FHIR resources from a file, one per line, without a server. The file is read on first use.

    A subject matches by its reference's last two segments (`Patient/ID`), and a code by any of its codings, as in a
    FHIR server's `patient` and `code` searches.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._patients: dict[str, Patient] = {}
        self._observations: dict[tuple[str, str], list[Observation]] = {}
        self._problem: FactsError | None = None
        self._loaded = False

    def patient(self, mrn: str) -> Patient | None:
        """The first patient with this identifier. Raises FactsError if the file is damaged."""
        self._load()
        return self._patients.get(mrn)

    def observations(self, mrn: str, code: str) -> Sequence[Observation]:
        """The patient's observations of `code` in file order. Raises FactsError if the file is damaged."""
        self._load()
        return self._observations.get((mrn, code), ())

    def _load(self) -> None:
        if not self._loaded:
            self._loaded = True
            try:
                with InputFile(self.path, error=FactsError) as file:
                    kinds = {self._add(resource) for _, resource in file.json_lines(json_object)}
                if not kinds & {"Patient", "Observation"}:
                    raise FactsError(f"{self.path}: has no FHIR Patient or Observation")
            except FactsError as error:
                self._problem = error
        if self._problem is not None:
            raise self._problem

    def _add(self, resource: dict[str, Any]) -> str:
        kind = str(resource.get("resourceType"))
        if kind == "Patient":
            for identifier in objects(resource.get("identifier")):
                if isinstance(mrn := identifier.get("value"), str):
                    self._patients.setdefault(mrn, _patient(resource))
        elif kind == "Observation" and (mrn := subject_id(resource)) is not None:
            for code in codes(resource):
                self._observations.setdefault((mrn, code), []).append(_observation(resource))
        return kind


class SearchEhr:
    """Facts from a FHIR server's searches: one page of up to 5,000 per query. Each query is sent once.

    `ask` gets the replies, over HTTP or from a server in the same process. If the server once does not reply, it is not
    called again: every later query fails immediately with the same message.
    """

    def __init__(self, base: str, ask: Ask) -> None:
        self._server = FhirSearches(base, ask)

    def patient(self, mrn: str) -> Patient | None:
        """The server's first patient with this identifier. Raises FactsError."""
        resources = self._server.resources("Patient", f"identifier={mrn}")
        return _patient(resources[0]) if resources else None

    def observations(self, mrn: str, code: str) -> Sequence[Observation]:
        """The server's first page of observations. Raises FactsError."""
        resources = self._server.resources("Observation", f"patient={mrn}&code={code}&_count={PAGE}")
        return [_observation(resource) for resource in resources]


def _patient(resource: dict[str, Any]) -> Patient:
    birth_date = resource.get("birthDate")
    return Patient(birth_date if isinstance(birth_date, str) else None)


def _observation(resource: dict[str, Any]) -> Observation:
    time, value = resource.get("effectiveDateTime"), as_object(resource.get("valueQuantity")).get("value")
    return Observation(
        time if isinstance(time, str) else None,
        value if isinstance(value, int | float) and not isinstance(value, bool) else None,
    )
