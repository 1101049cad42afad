"""All checks of a resource, in one walk: structure, then values, invariants and codes of each element."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache

from fhir_server import definitions
from fhir_server.definitions import Constraint
from fhir_server.expressions.budget import Budget
from fhir_server.expressions.errors import FhirPathError
from fhir_server.expressions.evaluator import holds
from fhir_server.expressions.node import Node
from fhir_server.expressions.scope import Environment
from fhir_server.terminology import HL7
from fhir_server.validation._codes import ValidationLibrary, check_bound, check_system, codings_of
from fhir_server.validation._profiles import check_profiles
from fhir_server.validation.structure import Issue, Place, Report, places
from fhir_server.wire.json_values import Json

_BASE = "(from http://hl7.org/fhir/StructureDefinition/"
_FORM_OF = re.compile(r"(name|fullUrl|reference)\.(matches|contains|startsWith)\(")
"""The beginning of an invariant about the spelling of an element that may be missing."""


def issues(resource: Json, library: ValidationLibrary, profiles: Sequence[str] = (), location: str = "") -> list[Issue]:
    """The problems of a resource of an R4 type; none of them is an error if the resource is valid. Their locations
    begin with `location`, by default the type.

    The resource is also checked against `profiles`, and against the profiles that it or a contained resource names
    if the library contains them.
    """
    report = Report()
    elements = list(places(resource, report, location))
    root = Node(resource, str(resource["resourceType"]))
    for place in elements:
        if place.resource is place.node:
            check_profiles(place.node, place.location, () if place is not elements[0] else profiles, library, report)
    if location:  # for a resource alone, HAPI's advice comes last
        missing = [issue for issue in report.issues if issue.message_id]
        report.issues = [issue for issue in report.issues if not issue.message_id]
        _advise(elements, report)
        report.issues += missing
    for place in [*elements[1:], elements[0]]:  # problems of the resource as a whole come last
        check_value(place, report)
        check_invariants(place, root, report)
        check_codes(place, library, report)
    check_ids(elements, report)
    check_resource(root, elements, report)
    if not location:
        _advise(elements, report)
    return _once(report.issues)


def _once(reported: list[Issue]) -> list[Issue]:
    """The issues without duplicates: if R4 and a profile report the same problem, the profile's message stays."""
    plain = {
        (issue.location, issue.diagnostics.partition(" (from ")[0])
        for issue in reported
        if _BASE not in issue.diagnostics
    }
    return [
        issue
        for issue in reported
        if _BASE not in issue.diagnostics or (issue.location, issue.diagnostics.partition(" (from ")[0]) not in plain
    ]


_COMMITTEE = "http://hl7.org/fhir/StructureDefinition/structuredefinition-wg"
_CQL = "text/cql"
_ADVISED = (
    ("subject", "a subject", "a_subject"),
    ("performer", "a performer", "a_performer"),
    ("effective[x]", "an effective[x] ()", "an_effectiveDateTime_or_an_effectivePeriod"),
)


def check_resource(root: Node, places: Sequence[Place], report: Report) -> None:
    """Reports references to missing contained resources, and violations of the type's own rules."""
    contained = {resource.get("id") for resource in root.value.get("contained", []) if isinstance(resource, dict)}
    for place in places:
        reference = place.node.value if place.path == "Reference.reference" else None
        if isinstance(reference, str) and reference.startswith("#") and reference[1:] not in contained | {""}:
            report.error(f"Unable to resolve resource with reference '{reference}'", place.location)
        if (
            place.path == "Measure.group.stratifier"
            and (place.node.value.get("criteria") or {}).get("language") == _CQL
        ):
            report.error("No CQL Libraries found on this Measure", place.location)
    url = root.value.get("url")
    extensions = [extension.get("url") for extension in root.value.get("extension", []) if isinstance(extension, dict)]
    if isinstance(url, str) and url.startswith("http://hl7.org/fhir/") and _COMMITTEE not in extensions:
        message = (
            f"When HL7 is publishing a resource, the owning committee must be stated using the {_COMMITTEE} extension"
        )
        report.error(message, places[0].location)


def _advise(places: Sequence[Place], report: Report) -> None:
    """Reports elements that HL7's validator recommends for observations."""
    root = places[0]
    if root.path != "Observation":
        return
    present = {place.path for place in places if place.owner is root.node.value}
    for name, shown, message_id in _ADVISED:
        if f"Observation.{name}" not in present:
            message = f"Best Practice Recommendation: In general, all observations should have {shown}"
            report.warn(message, root.location, f"All_observations_should_have_{message_id}")


_URIS = frozenset(("uri", "url", "canonical", "oid", "uuid"))
ABSOLUTE = re.compile(r"[a-z][a-z0-9+.-]*:\S*")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_OID = re.compile(r"[0-2](\.(0|[1-9][0-9]*))+")
_CODE = re.compile(r"[^\s]+( [^\s]+)*")
_RFC_3986 = "urn:ietf:rfc:3986"


def check_value(place: Place, report: Report) -> None:
    """Reports the problems of one element's value."""
    value, kind = place.node.value, place.node.type_name
    if isinstance(value, str) and value:
        if kind in _URIS:
            _check_uri(value, kind, place, report)
        elif kind == "code" and not _CODE.fullmatch(value):
            report.error(f"The code '{value}' is not valid (whitespace rules)", place.location)
        elif kind in ("dateTime", "instant"):
            _check_time(value, kind, place.location, report)
    elif kind == "Extension" and isinstance(value, dict):
        _check_extension(value, place.location, report)


def _check_uri(value: str, kind: str, place: Place, report: Report) -> None:
    location = place.location
    if re.search(r"\s", value):
        report.error(f"URI values cannot have whitespace('{value}')", location)
    if value.startswith("urn:uuid:") and not _UUID.fullmatch(value[9:]):
        report.error(f"UUIDs must be valid and lowercase ({value[9:]})", location)
    if value.startswith("urn:oid:") and not _OID.fullmatch(value[8:]):
        report.error(f"OIDs must be valid ({value[8:]})", location)
    if kind == "canonical" and not value.startswith("#") and not ABSOLUTE.match(value):
        report.error(f"Canonical URLs must be absolute URLs if they are not fragment references ({value})", location)
    if place.path == "Identifier.system" and not ABSOLUTE.match(value):
        report.error("Identifier.system must be an absolute reference, not a local reference", location)
    if place.path == "Identifier.system" and value == _RFC_3986:
        identifier = place.owner.get("value")
        if isinstance(identifier, str) and not ABSOLUTE.match(identifier):
            message = f"if identifier.system is '{_RFC_3986}', then the identifier.value must be a full URI"
            report.error(f"{message} (e.g. start with a scheme), not '{identifier}'", location)


def _check_time(value: str, kind: str, location: str, report: Report) -> None:
    if kind == "instant" and len(value) < 20:
        message = f"The instant ''{value}' doesn't meet format requirements for instant)' is not valid (by regex)"
        report.error(message, location)
    elif len(value) > 10 and not re.search(r"(Z|[+-]\d\d:\d\d)$", value):
        message = "If a date has a time, it must have a timezone"
        report.error(message, location, "Type_Specific_Checks_DT_DateTime_TZ")


def _check_extension(value: dict[str, object], location: str, report: Report) -> None:
    url = value.get("url")
    if not isinstance(url, str) or not url:
        report.error("Extension.url is required in order to identify, use and validate the extension", location)
    elif not ABSOLUTE.match(url) and ".extension" not in location.rpartition(".")[0].split("/*")[-1]:
        report.error("Extension.url must be an absolute URL", location)
    elif ABSOLUTE.match(url) and not url.startswith("http://hl7.org/fhir/StructureDefinition/"):
        report.inform(f"Unknown extension {url}", location, "Extension_EXT_Unknown")


def check_ids(places: list[Place], report: Report) -> None:
    """Reports element ids that one resource contains twice."""
    seen: set[tuple[int, str]] = set()
    for place, element_id in _ids(places):
        key = (id(place.resource.value) if place.resource else 0, element_id)
        if key in seen:
            report.error(f"Duplicate id value '{element_id}'", place.location)
        seen.add(key)


def _ids(places: list[Place]) -> Iterator[tuple[Place, str]]:
    for place in places:
        value = place.node.value
        if isinstance(value, dict) and "resourceType" not in value and isinstance(value.get("id"), str):
            yield place, value["id"]


_PROFILE = "http://hl7.org/fhir/StructureDefinition/"
_QUANTITIES = ("Age", "Count", "Distance", "Duration", "MoneyQuantity", "SimpleQuantity")
_ELSEWHERE = frozenset(("ele-1", "ext-1"))
"""Checked in `structure`: `Object must have some content` is the message for ele-1."""


@cache
def _constraints(path: str, type_name: str) -> tuple[Constraint, ...]:
    """The invariants of an element: of its type, of that type's base types, and of the element itself."""
    declared = [*definitions.constraints(type_name)]
    if definitions.is_resource_type(type_name):
        declared += definitions.constraints("Resource")
        if any(element.name == "text" for element in definitions.elements(type_name)):
            declared += definitions.constraints("DomainResource")
    if type_name in _QUANTITIES:
        declared += definitions.constraints("Quantity")
    if path != type_name:
        declared += definitions.constraints(path)
    by_key = {constraint.key: constraint for constraint in declared if constraint.expression}
    return tuple(_of_present(constraint) for key, constraint in by_key.items() if key not in _ELSEWHERE)


def _of_present(constraint: Constraint) -> Constraint:
    """R4 describes a name, fullUrl or reference without saying that it may be missing. HAPI's validator adds that."""
    element = _FORM_OF.match(constraint.expression)
    if element is None:
        return constraint
    return replace(constraint, expression=f"{element[1]}.exists() implies {constraint.expression}")


def check_invariants(place: Place, root: Node, report: Report) -> None:
    """Reports the invariants that are false for an element. Skips those that cannot be evaluated here."""
    listed = _constraints(place.path, place.node.type_name)
    if not listed or place.node.value is None:
        return
    resource = place.resource or root
    environment = Environment(resource, root, root.contained, budget=Budget())  # R4's own expressions, which are short
    for constraint in listed:
        try:
            if holds(constraint.expression, place.node, environment):
                continue
        except FhirPathError:
            continue
        declared_by = constraint.path.partition(".")[0]
        message, source = f"Constraint failed: {constraint.key}: '{constraint.human}'", f"{_PROFILE}{declared_by}"
        types = {place.node.type_name.partition(".")[0], place.path.partition(".")[0]}
        message_id = f"{source}#{constraint.key}" if declared_by in types else ""
        message += "" if message_id else f" (defined in {source})"
        if constraint.severity == "error":
            report.error(message, place.location, message_id)
        else:
            best = " (Best Practice Recommendation)" if constraint.key == "dom-6" else ""
            report.warn(message + best, place.location, message_id)


def check_codes(place: Place, library: ValidationLibrary, report: Report) -> None:
    """Reports codes that their system or a required value set does not contain."""
    value, kind, location = place.node.value, place.node.type_name, place.location
    binding = definitions.binding(place.path)
    match kind:
        case "CodeableConcept":
            for coding in codings_of(value):
                check_system(coding, location, library, report)
        case "Coding" if isinstance(value, dict) and not place.path.endswith("CodeableConcept.coding"):
            if binding is None or binding.strength == "required":  # others are only advice, as in HAPI
                check_system(value, location, library, report)
            if binding is None and not ABSOLUTE.match(str(value.get("system", "a:"))):
                report.error("Coding.system must be an absolute reference, not a local reference", location)
        case "code" if place.codes is None:
            pass
        case "Quantity" | "Age" | "Duration" | "Distance" | "Count" if isinstance(value, dict):
            check_system(value, location, library, report)
            return
        case _:
            return
    if binding is not None and binding.strength == "required":
        value_set, url = HL7.value_set(binding.value_set), f"{binding.value_set}|4.0.1"
        check_bound(value, kind, value_set, url, location, HL7, report)
