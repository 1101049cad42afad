"""FHIR resources as JSON, as far as graders need them: their patient, their codes, and a server's searches."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from refsol.errors import FactsError
from refsol.json_values import as_object, json_value, objects

Ask = Callable[[str], tuple[int, bytes | str]]
"""Sends a GET to a URL and returns the status and body of the reply. Raises FactsError without a reply."""


def subject_id(resource: Mapping[str, Any]) -> str | None:
    """The id of the Patient in `subject` or `patient`, from the reference's last two segments; None for any other
    reference.
    """
    reference = as_object(resource.get("subject") or resource.get("patient")).get("reference")
    target, _, patient = ("/" + reference).rpartition("/") if isinstance(reference, str) else ("", "", "")
    return patient if target.endswith("/Patient") else None


def codes(resource: Mapping[str, Any]) -> set[str]:
    """The codes of all codings in `code` or `vaccineCode`."""
    return codes_in(resource, "code", "vaccineCode")


def codes_in(resource: Mapping[str, Any], *elements: str) -> set[str]:
    """The codes of all codings in some elements."""
    return {code for coding in codings(resource, *elements) if isinstance(code := coding.get("code"), str)}


def codings(resource: Mapping[str, Any], *elements: str) -> Iterator[Mapping[str, Any]]:
    """The codings in some elements, each a CodeableConcept."""
    return (coding for name in elements for coding in objects(as_object(resource.get(name)).get("coding")))


_CODED = {
    "Immunization": "vaccineCode",
    **dict.fromkeys(
        ("MedicationRequest", "MedicationAdministration", "MedicationDispense", "MedicationStatement"),
        "medicationCodeableConcept",
    ),
}
TIMES = (
    "effectiveDateTime",
    "issued",
    "performedDateTime",
    "occurrenceDateTime",
    "authoredOn",
    "onsetDateTime",
    "recordedDate",
)
"""The elements that state when something was the case or was recorded, as one time."""
CLINICAL_STATUS = {
    "Condition": "http://terminology.hl7.org/CodeSystem/condition-clinical",
    "AllergyIntolerance": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical",
}
"""The types whose status is a concept, `clinicalStatus`, and its code system."""


def coded_in(kind: str) -> str:
    """The element of a type that a search by code compares."""
    return _CODED.get(kind, "code")


def any_of(values: Iterable[str]) -> str:
    """A value of a search parameter that matches any of some values: `A,B`. Separators in them are escaped."""
    return ",".join(re.sub(r"([\\,|$])", r"\\\1", value) for value in values)


def values_of(text: str) -> list[str]:
    """The values that a value of a search parameter matches. The inverse of `any_of`."""
    return [re.sub(r"\\(.)", r"\1", escaped_value) for escaped_value in escaped_values(text)]


def escaped_values(text: str) -> list[str]:
    """The values of a search parameter, still escaped: `A\\,B` is one value."""
    return re.split(r"(?<!\\),", text)


class FhirSearches:
    """Searches of a FHIR server: the first page of each; each is sent once.

    `ask` gets the replies, over HTTP or from a server in the same process. If the server once does not reply, it is not
    called again: every later search fails immediately with the same message.
    """

    def __init__(self, base: str, ask: Ask) -> None:
        self._base = base.rstrip("/") + "/"
        self._ask = ask
        self._pages: dict[tuple[str, str], list[dict[str, Any]]] = {}
        self._no_answer: FactsError | None = None

    def resources(self, kind: str, query: str) -> list[dict[str, Any]]:
        """The resources of type `kind` in the reply, in the server's order. Raises FactsError."""
        if (kind, query) not in self._pages:
            url = f"{self._base}{kind}?{query}&_format=json"
            entries = objects(self._bundle(url).get("entry"))
            resources = [as_object(entry.get("resource")) for entry in entries]
            self._pages[kind, query] = [resource for resource in resources if resource.get("resourceType") == kind]
        return self._pages[kind, query]

    def _bundle(self, url: str) -> dict[str, Any]:
        if self._no_answer is not None:
            raise self._no_answer
        try:
            status, body = self._ask(url)
        except FactsError as error:
            self._no_answer = error
            raise
        if status != 200:
            raise FactsError(f"{url}: status {status}")
        bundle = json_value(body)
        if not isinstance(bundle, dict) or bundle.get("resourceType") != "Bundle":
            raise FactsError(f"{url}: the answer is not a FHIR Bundle in JSON")
        return bundle
