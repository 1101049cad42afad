"""Where facts come from: the `Ehr` protocol, and two of its readers. The third, `KeyEhr`, stands in `key.py`.

A grader needs little: a patient's birth date, and the times and values of one patient's readings of one code in the
server's order (that of insertion). FHIR JSON is read into `Patient` and `Reading` here and goes no further.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from refsol.errors import FactsError

if TYPE_CHECKING:
    import httpx

PAGE = 5000
"""Observations asked for in the one page that is read, as the published grader does."""


@dataclass(frozen=True, slots=True)
class Patient:
    """A patient; `birth_date` as stored."""

    birth_date: str | None


@dataclass(frozen=True, slots=True)
class Reading:
    """One Observation: `effectiveDateTime` as stored and `valueQuantity.value`; None where it has none."""

    time: str | None
    value: int | float | None


class Ehr(Protocol):
    """Facts about patients. Both methods raise FactsError where they cannot be read."""

    def patient(self, mrn: str) -> Patient | None:
        """The first patient with this identifier, or None."""
        ...

    def observations(self, mrn: str, code: str) -> Sequence[Reading]:
        """The readings of `code` (MG, K, GLU, A1C) of the patient with this id, in the server's order."""
        ...


class NdjsonEhr:
    """FHIR resources from a file, one a line, without a server. The file is read at the first question.

    A subject matches by its reference's last two steps (`Patient/ID`), a code by any of its codings, as a FHIR
    server's `patient` and `code` searches do.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._patients: dict[str, Patient] = {}
        self._readings: dict[tuple[str, str], list[Reading]] = {}
        self._problem: FactsError | None = None
        self._loaded = False

    def patient(self, mrn: str) -> Patient | None:
        """The first patient with this identifier. Raises FactsError where the file is damaged."""
        self._load()
        return self._patients.get(mrn)

    def observations(self, mrn: str, code: str) -> Sequence[Reading]:
        """The patient's readings of `code` in the file's order. Raises FactsError where the file is damaged."""
        self._load()
        return self._readings.get((mrn, code), ())

    def _load(self) -> None:
        if not self._loaded:
            self._loaded = True
            try:
                kinds = {self._add(resource) for resource in _lines(self.path)}
                if not kinds & {"Patient", "Observation"}:
                    raise FactsError(f"{self.path}: holds no FHIR Patient or Observation")
            except FactsError as error:
                self._problem = error
        if self._problem is not None:
            raise self._problem

    def _add(self, resource: dict[str, Any]) -> str:
        kind = str(resource.get("resourceType"))
        if kind == "Patient":
            for identifier in _objects(resource.get("identifier")):
                if isinstance(mrn := identifier.get("value"), str):
                    self._patients.setdefault(mrn, _patient(resource))
        elif kind == "Observation":
            reference = _object(resource.get("subject")).get("reference")
            target, _, mrn = ("/" + reference).rpartition("/") if isinstance(reference, str) else ("", "", "")
            codings = _objects(_object(resource.get("code")).get("coding")) if target.endswith("/Patient") else []
            for code in {code for coding in codings if isinstance(code := coding.get("code"), str)}:
                self._readings.setdefault((mrn, code), []).append(_reading(resource))
        return kind


class HttpEhr:
    """Facts from a FHIR server: one page of 5,000 a question, each question asked once.

    A server that does not answer is not asked again: every later question fails at once with the same words.
    `transport` carries the requests (httpx's own to a network by default), so that a server in this process can answer.
    """

    def __init__(
        self,
        base_url: str,
        transport: httpx.BaseTransport | None = None,
        *,
        headers: dict[str, str] | None = None,
        auth: tuple[str, str] | None = None,
        verify: str | bool = True,
        timeout: float = 60.0,
    ) -> None:
        import ssl

        import httpx

        context = ssl.create_default_context(cafile=verify) if isinstance(verify, str) else verify
        self.base_url = base_url.rstrip("/") + "/"
        self._client = httpx.Client(transport=transport, headers=headers, auth=auth, verify=context, timeout=timeout)
        weakref.finalize(self, self._client.close)
        self._pages: dict[tuple[str, str], list[dict[str, Any]]] = {}
        self._away: FactsError | None = None

    def patient(self, mrn: str) -> Patient | None:
        """The server's first patient with this identifier. Raises FactsError."""
        found = self._search("Patient", f"identifier={mrn}")
        return _patient(found[0]) if found else None

    def observations(self, mrn: str, code: str) -> Sequence[Reading]:
        """The server's first page of readings. Raises FactsError."""
        found = self._search("Observation", f"patient={mrn}&code={code}&_count={PAGE}")
        return [_reading(resource) for resource in found]

    def _search(self, kind: str, query: str) -> list[dict[str, Any]]:
        if (kind, query) not in self._pages:
            url = f"{self.base_url}{kind}?{query}&_format=json"
            entries = _objects(self._get(url).get("entry"))
            resources = [_object(entry.get("resource")) for entry in entries]
            self._pages[kind, query] = [one for one in resources if one.get("resourceType") == kind]
        return self._pages[kind, query]

    def _get(self, url: str) -> dict[str, Any]:
        import httpx

        if self._away is not None:
            raise self._away
        try:
            response = self._client.get(url)
        except httpx.TransportError as error:
            self._away = FactsError(f"{url}: no answer: {str(error) or type(error).__name__}")
            raise self._away from None
        if response.status_code != 200:
            raise FactsError(f"{url}: status {response.status_code}")
        try:
            bundle = response.json()
        except (ValueError, RecursionError):
            bundle = None
        if not isinstance(bundle, dict) or bundle.get("resourceType") != "Bundle":
            raise FactsError(f"{url}: the answer is not a FHIR Bundle in JSON")
        return bundle


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    number = 0
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if not line.isspace():
                    resource = json.loads(line.decode("utf-8"))
                    if not isinstance(resource, dict):
                        raise FactsError(f"{path}, line {number}: is not a JSON object")
                    yield resource
    except OSError as error:
        raise FactsError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise FactsError(f"{path}, line {number}: is not UTF-8: {error.reason}") from None
    except (ValueError, RecursionError) as error:
        raise FactsError(f"{path}, line {number}: is not JSON: {error}") from None


def _patient(resource: dict[str, Any]) -> Patient:
    birth_date = resource.get("birthDate")
    return Patient(birth_date if isinstance(birth_date, str) else None)


def _reading(resource: dict[str, Any]) -> Reading:
    time, value = resource.get("effectiveDateTime"), _object(resource.get("valueQuantity")).get("value")
    return Reading(
        time if isinstance(time, str) else None,
        value if isinstance(value, int | float) and not isinstance(value, bool) else None,
    )


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _objects(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
