"""Checks coded values: their system must contain the code, and so must the value set of a required binding.

Both R4's and profiles' bindings are checked here. The messages are HL7's, observed in HAPI FHIR 7.6.0.
"""

from __future__ import annotations

from typing import Protocol

from fhir_server.terminology import UCUM, Library, concepts, contains, is_unit
from fhir_server.validation.structure import Report
from fhir_server.wire.json_values import Json

_PASSED_ON = "Terminology_PassThrough_TX_Message"


class ValidationLibrary(Library, Protocol):
    """A library that tells stored resources from HL7's."""

    def find(self, kind: str, url: str) -> Json | None:
        """The stored resource of a type with this canonical URL, or None."""


def codings_of(concept: Json) -> list[Json]:
    """The codings of a CodeableConcept."""
    listed = concept.get("coding") if isinstance(concept, dict) else None
    return [coding for coding in listed if isinstance(coding, dict)] if isinstance(listed, list) else []


def check_system(coding: Json, location: str, library: ValidationLibrary, report: Report) -> None:
    """Reports a code that its code system does not contain. A Quantity has a system and a code too."""
    system, code = coding.get("system"), coding.get("code")
    if not isinstance(system, str) or not isinstance(code, str | None):
        return
    if system == UCUM and code is not None:
        if not is_unit(code):
            message = f"Error processing unit '{code}': The unit '{code}' is unknown' at position 0"
            report.error(f"{message} (for '{UCUM}#{code}')", location, _PASSED_ON)
        return
    code_system = library.code_system(system)
    if code_system is None:
        return
    shown, known = f"{system}#{code or 'null'}", concepts(code_system)
    if code in known or (not code_system.get("caseSensitive", True) and str(code).lower() in map(str.lower, known)):
        return
    if code_system.get("content") == "fragment":
        report.warn(f"Unknown code in fragment CodeSystem '{shown}'", location, _PASSED_ON)
    elif code_system.get("content") == "complete":
        stored = f"Unable to validate code {shown} - Code is not found in CodeSystem: {system}"
        message = stored if library.find("CodeSystem", system) else f"Unknown code '{shown}'"
        report.error(message, location, _PASSED_ON)


def check_bound(
    value: Json, kind: str, value_set: Json | None, url: str, location: str, library: Library, report: Report
) -> None:
    """Reports a value of the type `kind` that a required value set certainly does not contain. `url` has a version."""
    if value_set is None:
        return
    name = f"'{value_set.get('title') or value_set.get('name')}' ({url})"
    match kind:
        case "code" | "string" | "uri":
            if isinstance(value, str) and contains(value_set, None, value, library) is False:
                message = f"The value provided ('{value}') was not found in the value set {name}, and a code is"
                why = f"Unknown code '{_shown(value, value_set)}' for in-memory expansion of ValueSet"
                why = f"{why} '{url.partition('|')[0]}'"
                message = f"{message} required from this value set  (error message = {why})"
                report.error(message, location, "Terminology_TX_NoValid_16")
        case "CodeableConcept":
            codings = codings_of(value)
            if not codings:
                message = f"No code provided, and a code is required from the value set {name}"
                report.error(message, location, "Terminology_TX_Code_ValueSet")
            elif any(_is_outside(coding, value_set, library) for coding in codings):  # HAPI: all of them must be valid
                shown = ", ".join(f"{coding.get('system', 'null')}#{coding.get('code', 'null')}" for coding in codings)
                message = f"None of the codings provided are in the value set {name}, and a coding from this value set"
                report.error(f"{message} is required) (codes = {shown})", location, "Terminology_TX_NoValid_1_CC")
        case "Coding" | "Quantity":
            if isinstance(value, dict) and _is_outside(value, value_set, library):
                message = f"The {kind} provided ({value.get('system')}#{value.get('code')}) was not found in the value"
                report.error(f"{message} set {name}, and a code is required from this value set.", location)


def _shown(code: str, value_set: Json) -> str:
    """A code, with its system if the value set has only one."""
    systems = [part.get("system") for part in (value_set.get("compose") or {}).get("include", ())]
    return f"{systems[0]}#{code}" if len(systems) == 1 else code


def _is_outside(coding: Json, value_set: Json, library: Library) -> bool:
    """Whether a value set certainly does not contain a coding."""
    system, code = coding.get("system"), coding.get("code")
    if not isinstance(system, str) or not isinstance(code, str):
        return True
    return contains(value_set, system, code, library) is False
