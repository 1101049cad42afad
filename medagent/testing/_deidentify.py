"""De-identifies recorded exchanges: all values that can identify a patient, and all tokens, are replaced by rules.

The rules go by R4's types and list what stays: codes with their displays, quantities, dates, references, ids and
addresses of resources. All other values are replaced: text (`string`, `markdown`), narratives, binary data, and dates
of birth and death (their year stays). So a text is also replaced in an extension or in an element that is not in R4. A
replacement is the element's name with a number (`family-1`), the same for equal texts in one cassette.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any
from urllib.parse import parse_qsl, quote

from fhir_server.definitions import elements, is_primitive, is_resource_type, parameter_lines, resource_types

DEFINITIONS = {"CapabilityStatement", "CodeSystem", "CompartmentDefinition", "ConceptMap", "ImplementationGuide"}
DEFINITIONS |= {"NamingSystem", "OperationDefinition", "SearchParameter", "StructureDefinition", "StructureMap"}
DEFINITIONS |= {"TerminologyCapabilities", "ValueSet"}
"""Resources about FHIR itself, which stay unchanged."""
UNCHANGED_FIELDS = {
    "Coding": {"display", "version"},
    "Quantity": {"unit"},
    "SampledData": {"data"},
    "Reference": {"reference"},
    "Bundle.link": {"relation"},
    "Bundle.entry.request": {"ifMatch", "ifNoneExist", "ifNoneMatch"},
    "Bundle.entry.response": {"status", "etag"},
    "OperationOutcome.issue": {"diagnostics", "expression", "location"},
    "Parameters.parameter": {"name"},
    "QuestionnaireResponse.item": {"linkId"},
}
"""Elements of type `string` that are not free text; known names in them are replaced too."""
QUANTITIES = frozenset({"Age", "Count", "Distance", "Duration", "Money", "SimpleQuantity"})
DATES = {("Patient", "birthDate"), ("Person", "birthDate"), ("Practitioner", "birthDate")}
DATES |= {("RelatedPerson", "birthDate"), ("Patient", "deceasedDateTime"), ("FamilyMemberHistory", "bornDate")}
IDENTIFYING = {"birthdate", "death-date", "_content", "_text", "_filter"}
"""Search parameters that identify a patient, in addition to the options of type `string`."""
WITH_SYSTEM = {"identifier", "phone", "email", "telecom"}
"""The same, with values of the format `system|value`: the system stays."""
SECRET = re.compile(r"token|secret|password|api_?key|signature|authorization|assertion|session", re.IGNORECASE)
NAMING = frozenset({"HumanName", "Address", "ContactPoint", "Identifier", "Parameter"})
"""Types whose texts are also replaced inside other texts that stay."""
LONG_NUMBER = 100_000
SHORTEST_NAME = 4
"""Characters; shorter texts are not replaced inside others, because they may be parts of ordinary words."""
BLANK = "scrubbed"
NARRATIVE = f'<div xmlns="http://www.w3.org/1999/xhtml">{BLANK}</div>'


class Scrubber:
    """Replaces identifying texts, equal ones equally. With `blank`, all get the same replacement, for comparisons."""

    def __init__(self, *, blank: bool = False) -> None:
        self._blank = blank
        self._replaced: dict[str, str] = {}
        self._numbers: dict[str, int] = {}
        self._names: set[str] = set()

    def document(self, value: Any) -> Any:
        """A scrubbed JSON document: a resource by its type; in any other document all texts are replaced."""
        return self._resource(value) if isinstance(value, dict) else self._unknown(value, "text")

    def query(self, text: str) -> str:
        """A query string (or a format) without identifying values and tokens."""
        pairs = parse_qsl(text, keep_blank_values=True)
        return "&".join(f"{quote(name, safe=':._-')}={self._parameter(name, value)}" for name, value in pairs)

    def url(self, text: str) -> str:
        """A URL with a scrubbed query."""
        path, mark, query = text.partition("?")
        return path + mark + self.query(query) if mark else text

    def without_names(self, value: Any) -> Any:
        """A scrubbed document or text in which known names are replaced too: in a server's diagnostics, for example, or
        in an id that is the record number. Call it after all documents, when all names are known.
        """
        if isinstance(value, dict):
            return {key: self.without_names(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.without_names(inner) for inner in value]
        if not isinstance(value, str):
            return value
        for name in sorted(self._names, key=len, reverse=True):
            if name in value:
                value = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", self._replaced[name], value)
        return value

    def _parameter(self, name: str, value: str) -> str:
        if SECRET.search(name):
            return self._replacement("token", value, "Parameter")
        last = name.rpartition(".")[2].partition(":")[0]
        if last in WITH_SYSTEM or name.endswith(":identifier"):
            parts = [part.rpartition("|") for part in value.split(",")]
        elif last in IDENTIFYING or last in _string_parameters():
            parts = [("", "", part) for part in value.split(",")]
        else:
            return quote(value, safe="/:|,$-._")
        return ",".join(
            quote(system + bar, safe=":/|") + self._replacement(last, text, "Parameter") for system, bar, text in parts
        )

    def _resource(self, value: dict[str, Any]) -> dict[str, Any]:
        kind = value.get("resourceType")
        if kind in DEFINITIONS:
            return value
        known = isinstance(kind, str) and is_resource_type(kind)
        return self._typed(value, str(kind)) if known else self._unknown(value, "text")

    def _typed(self, value: dict[str, Any], kind: str) -> dict[str, Any]:
        declared = _element_types(kind)
        scrubbed: dict[str, Any] = {}
        for key, inner in value.items():
            if key == "resourceType" or (kind == "CodeableConcept" and key == "text" and _is_display(inner, value)):
                scrubbed[key] = inner
                continue
            # The twin of a primitive (`_birthDate`) contains its id and extensions.
            name = "Element" if key.startswith("_") else declared.get(key)
            many = isinstance(inner, list)
            changed = [self._element(element, kind, key, name) for element in (inner if many else [inner])]
            scrubbed[key] = changed if many else changed[0]
        return scrubbed

    def _element(self, value: Any, parent: str, key: str, kind: str | None) -> Any:
        if isinstance(value, dict) and kind is not None and not is_primitive(kind):
            return self._resource(value) if kind == "Resource" else self._typed(value, kind)
        if value is None or kind is None or not is_primitive(kind) or isinstance(value, (dict, list)):
            return self._unknown(value, key)
        return self._text(value, parent, key, kind) if isinstance(value, str) else value

    def _text(self, value: str, parent: str, key: str, kind: str) -> str:
        if (parent, key) in DATES:
            return value[:4]
        if kind == "xhtml":
            return NARRATIVE
        if key == "ifNoneExist":
            return self.query(value)
        if key == "id" or key in UNCHANGED_FIELDS.get("Quantity" if parent in QUANTITIES else parent, ()):
            return self.url(value)
        if kind in ("string", "markdown", "base64Binary") or (parent == "Attachment" and key == "url"):
            return self._replacement(key, value, parent)
        return self.url(value) if kind in ("uri", "url") else value

    def _unknown(self, value: Any, label: str) -> Any:
        """A value of which R4 knows no type: every text in it goes, and every number that is long enough to name."""
        if isinstance(value, dict):
            return {key: self._unknown(inner, key) for key, inner in value.items()}
        if isinstance(value, list):
            return [self._unknown(inner, label) for inner in value]
        if isinstance(value, str):
            return value if label == "resourceType" else self._replacement(label, value, "")
        return 0 if isinstance(value, (int, float)) and abs(value) >= LONG_NUMBER else value

    def _replacement(self, label: str, text: str, parent: str) -> str:
        if self._blank:
            return BLANK
        if parent in NAMING and len(text) >= SHORTEST_NAME:
            self._names.add(text)
        if text not in self._replaced:
            called = parent[:1].lower() + parent[1:] if label == "value" else label
            self._numbers[called] = self._numbers.get(called, 0) + 1
            self._replaced[text] = f"{called}-{self._numbers[called]}"
        return self._replaced[text]


def _is_display(text: Any, concept: dict[str, Any]) -> bool:
    """Whether the text of a CodeableConcept equals the display of one of its codes, so that it identifies nobody."""
    codings = concept.get("coding")
    return isinstance(codings, list) and text in [
        coding.get("display") for coding in codings if isinstance(coding, dict)
    ]


@cache
def _element_types(kind: str) -> dict[str, str]:
    """The type of each JSON key of a type; for a type that the tables lack, only extensions."""
    if kind == "Element":
        return {"id": "string", "extension": "Extension"}
    return {element.key(declared): declared.name for element in elements(kind) for declared in element.types}


@cache
def _string_parameters() -> frozenset[str]:
    bases: Iterable[str] = (*resource_types(), "Resource", "DomainResource")
    return frozenset(line.name for base in bases for line in parameter_lines(base) if line.kind == "string")
