"""Checks a resource against the snapshots of the stored profiles that it names.

The checks cover cardinality, fixed values and patterns, types of choices, required bindings, and the profile's own
invariants; the messages are HL7's. Slices are not checked. A profile without a snapshot counts as unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from fhir_server import definitions
from fhir_server.expressions.budget import Budget, budget
from fhir_server.expressions.errors import FhirPathError
from fhir_server.expressions.evaluator import holds
from fhir_server.expressions.node import Node
from fhir_server.expressions.scope import Environment
from fhir_server.validation._codes import ValidationLibrary, check_bound, codings_of
from fhir_server.validation.structure import Report
from fhir_server.wire.json_values import Json

_HL7 = "http://hl7.org/fhir/StructureDefinition/"
_UNKNOWN = "VALIDATION_VAL_PROFILE_UNKNOWN_NOT_POLICY"


@dataclass(slots=True)
class SnapshotElement:
    """An element of a snapshot; `below` contains its child elements by name (`value[x]` for a choice)."""

    definition: Json
    below: dict[str, SnapshotElement] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """The path of the element, `Observation.value[x]`."""
        return str(self.definition.get("path"))

    @property
    def types(self) -> list[str]:
        """The types that the element may have."""
        return [str(declared.get("code")) for declared in self.definition.get("type", ()) if isinstance(declared, dict)]

    def required_value(self) -> tuple[str, str, Json] | None:
        """The required value as (`fixed` or `pattern`, type, value); None if any value is allowed."""
        for key, value in self.definition.items():
            for kind in ("fixed", "pattern"):
                if key.startswith(kind) and key[len(kind) : len(kind) + 1].isupper():
                    return kind, key.removeprefix(kind), value
        return None


@dataclass(frozen=True, slots=True)
class Profile:
    """A profile: its canonical URL with the version, the type that it constrains, and its elements."""

    name: str
    type_name: str
    root: SnapshotElement


def read(definition: Json) -> Profile | None:
    """The profile of a StructureDefinition; None without a snapshot."""
    listed = (definition.get("snapshot") or {}).get("element")
    if not isinstance(listed, list) or not listed:
        return None
    root = SnapshotElement(listed[0])
    for element in listed[1:]:
        place, *steps = str(element.get("path")).split(".")[1:] or [""]
        if "sliceName" in element or ":" in str(element.get("id")):
            continue
        owner = root
        for step in steps:
            owner, place = owner.below.setdefault(place, SnapshotElement({})), step
        owner.below[place] = SnapshotElement(element)
    version = definition.get("version")
    name = f"{definition.get('url')}|{version}" if version else str(definition.get("url"))
    return Profile(name, str(definition.get("type")), root)


def check_profiles(root: Node, location: str, named: Sequence[str], library: ValidationLibrary, report: Report) -> None:
    """Checks a resource against the profiles in its `meta.profile`, and against the `named` ones."""
    meta = root.value.get("meta")
    listed = meta.get("profile") if isinstance(meta, dict) else None
    claimed = [url for url in listed if isinstance(url, str)] if isinstance(listed, list) else []
    for url in dict.fromkeys(url.partition("|")[0] for url in [*named, *claimed]):
        definition = library.find("StructureDefinition", url)
        profile = read(definition) if definition is not None else None
        if profile is not None and profile.type_name != root.type_name:
            message = f"Specified profile type was '{profile.type_name}' in profile '{profile.name}'"
            report.error(f"{message}, but found type '{root.type_name}'", location, "Validation_VAL_Profile_WrongType")
        elif profile is not None:
            _Check(profile.name, root, library, report).members(root.value, profile.root, root.type_name, location)
        elif not url.startswith(_HL7):  # profiles that HL7 publishes with R4 are not checked here; HAPI has them
            message = (
                f"Profile reference '{url}' has not been checked because it could not be found, and the validator is"
            )
            message += " set to not fetch unknown profiles"
            at = next((number for number, url_named in enumerate(claimed) if url_named.partition("|")[0] == url), None)
            if at is None:
                report.warn(message, location, _UNKNOWN)
            else:
                report.error(message, f"{location}.meta.profile[{at}]", _UNKNOWN)


@dataclass(frozen=True, slots=True)
class _Check:
    """The check of one resource against one profile."""

    profile: str
    root: Node
    library: ValidationLibrary
    report: Report
    budget: Budget = field(default_factory=budget)
    """The steps that all invariants of the request may take together. The remaining invariants are skipped."""

    def members(self, value: Json, element: SnapshotElement, type_name: str, location: str) -> None:
        """Checks the members of an object."""
        if not isinstance(value, dict):
            value = {}
        fields = _fields(type_name)
        for name, below in element.below.items():
            values = list(_values(value, name, fields, location))
            if name.endswith("[x]"):
                values = self._chosen(values, below, location)
            self._count(values, below, location)
            for place, kind, _, item in values:
                self._element(item, below, kind, place)

    def _chosen(self, values: list[Value], element: SnapshotElement, location: str) -> list[Value]:
        """The values of a choice; if one has a type that the profile allows, without values of other types."""
        types = element.types
        allowed = [value for value in values if value.type_name in types or not types]
        for value in values:
            if value not in allowed and allowed:
                self.report.error(f"Unrecognized property '{value.key}'", location, key=value.key)
            elif value not in allowed:
                message = (
                    f"The Profile '{self.profile}' definition allows for the type {', '.join(types)} but found type"
                )
                self.report.error(f"{message} {value.type_name}", value.location, "Extension_PROF_Type")
        return allowed or values

    def _count(self, values: Sequence[object], element: SnapshotElement, location: str) -> None:
        least, most, source = element.definition.get("min", 0), element.definition.get("max", "*"), self.profile
        if isinstance(least, int) and len(values) < least:
            message = f"{element.path}: minimum required = {least}, but only found {len(values)} (from {source})"
            self.report.error(message, location, "Validation_VAL_Profile_Minimum")
        if isinstance(most, str) and most.isdecimal() and len(values) > int(most):
            message = f"{element.path}: max allowed = {most}, but found {len(values)} (from {source})"
            self.report.error(message, location, "Validation_VAL_Profile_Maximum")

    def _element(self, value: Json, element: SnapshotElement, kind: str, location: str) -> None:
        if element.definition.get("max") == "0":
            return
        required = element.required_value()
        if required is not None:
            self._required(value, *required, location)
        binding = element.definition.get("binding")
        if isinstance(binding, dict) and binding.get("strength") == "required":
            self._binding(value, str(binding.get("valueSet")), kind, location)
        self._invariants(value, element, kind, location)
        if element.below:
            self.members(value, element, kind, location)

    def _required(self, value: Json, kind: str, type_name: str, expected: Json, location: str) -> None:
        """Checks a fixed value or a pattern."""
        if kind == "pattern" and type_name == "CodeableConcept":
            self._concept(value, expected, location)
            return
        self._equal(value, expected, location, exact=kind == "fixed")

    def _equal(self, value: Json, expected: Json, location: str, *, exact: bool) -> None:
        if isinstance(expected, dict):
            known = value if isinstance(value, dict) else {}
            for key, fixed in expected.items():
                if key not in known:
                    message = f"Missing element '{key}' - required by fixed value assigned in profile {self.profile}"
                    self.report.error(message, f"{location}.{key}", "Profile_VAL_MissingElement")
                else:
                    self._equal(known[key], fixed, f"{location}.{key}", exact=exact)
            for key in known if exact else ():
                if key not in expected:
                    message = (
                        f"The element {key} is present in the instance but not allowed in the applicable fixed value"
                    )
                    self.report.error(f"{message} specified in profile", location, "Fixed_Type_Checks_DT_Element_Extra")
        elif isinstance(expected, list):
            listed = value if isinstance(value, list) else []
            for number, member in enumerate(expected):
                if not any(_fits(each, member, exact=exact) for each in listed):
                    message = f"No element matches the profile {self.profile}: [{number}] of its list"
                    self.report.error(message, location)
        elif _text(value) != _text(expected):
            message = f"Value is '{_text(value)}' but must be '{_text(expected)}'"
            self.report.error(message, location, "_DT_Fixed_Wrong")

    def _concept(self, value: Json, expected: Json, location: str) -> None:
        """Checks a pattern of a CodeableConcept: each coding of the pattern must match a coding of the value."""
        codings = codings_of(value)
        patterns = expected.get("coding", [])
        if len(codings) < len(patterns):
            message = f"Expected {len(patterns)} but found {len(codings)} coding elements"
            self.report.error(message, location, "Terminology_TX_Coding_Count")
            return
        for pattern in patterns:
            if not any(_fits(coding, pattern, exact=False) for coding in codings):
                shown = f"system {pattern.get('system')}, code {pattern.get('code')}, and display"
                shown = f"[{shown} '{pattern.get('display', 'null')}']"
                message = f"The pattern {shown} defined in the profile {self.profile} not found. Issues: ["
                issues = [
                    issue for coding in codings for issue in _differences(coding, pattern, location, self.profile)
                ]
                self.report.error(f"{message}{', '.join(issues)}]", location, "TYPE_CHECKS_PATTERN_CC")
        if "text" in expected:
            self._equal(value, {"text": expected["text"]}, location, exact=False)

    def _binding(self, value: Json, url: str, kind: str, location: str) -> None:
        """Checks a required binding to a stored value set. Bindings to R4's own value sets are checked in `check`."""
        if url.startswith("http://hl7.org/fhir/ValueSet/") or url.startswith("http://terminology.hl7.org/ValueSet/"):
            return
        value_set = self.library.value_set(url.partition("|")[0])
        if value_set is None:
            return
        version = value_set.get("version")
        url = str(value_set.get("url")) + (f"|{version}" if version else "")
        check_bound(value, kind, value_set, url, location, self.library, self.report)

    def _invariants(self, value: Json, element: SnapshotElement, kind: str, location: str) -> None:
        """Checks the invariants that the profile adds to R4's."""
        node = Node(value, kind)
        environment = Environment(self.root, self.root, lambda reference: None, budget=self.budget)
        for constraint in element.definition.get("constraint", ()):
            source, expression = str(constraint.get("source", "")), constraint.get("expression")
            if source.startswith(_HL7) or not isinstance(expression, str):
                continue
            try:
                if holds(expression, node, environment):
                    continue
            except FhirPathError:
                continue
            key = constraint.get("key")
            message, message_id = f"Constraint failed: {key}: '{constraint.get('human')}'", f"{source}#{key}"
            if constraint.get("severity") == "error":
                self.report.error(message, location, message_id)
            else:
                self.report.warn(message, location, message_id)


def _fields(type_name: str) -> Mapping[str, definitions.Element]:
    """The elements of a type by name; empty if R4 does not have the type."""
    try:
        return {element.name: element for element in definitions.elements(type_name)}
    except KeyError:
        return {}


class Value(NamedTuple):
    """A value of an element: its location, its type, its JSON key, and the value."""

    location: str
    type_name: str
    key: str
    value: Json


def _values(value: Json, name: str, fields: Mapping[str, definitions.Element], location: str) -> Iterator[Value]:
    element = fields.get(name)
    if element is None:
        return
    for declared in element.types:
        key = element.key(declared)
        if key not in value:
            if f"_{key}" in value and not element.many:
                yield Value(f"{location}.{key}", declared.name, key, None)
            continue
        shown = f"{element.stem}.ofType({declared.name})" if element.is_choice else key
        values = value[key]
        if not element.many:
            yield Value(f"{location}.{shown}", declared.name, key, values)
        else:
            for number, item in enumerate(values if isinstance(values, list) else [values]):
                yield Value(f"{location}.{shown}[{number}]", declared.name, key, item)


def _fits(value: Json, pattern: Json, *, exact: bool) -> bool:
    """Whether a value contains all of a pattern; if `exact`, it must have nothing more."""
    if isinstance(pattern, dict):
        if not isinstance(value, dict) or (exact and value.keys() - pattern.keys()):
            return False
        return all(key in value and _fits(value[key], member, exact=exact) for key, member in pattern.items())
    if isinstance(pattern, list):
        listed = value if isinstance(value, list) else []
        return all(any(_fits(each, member, exact=exact) for each in listed) for member in pattern)
    return _text(value) == _text(pattern)


def _differences(coding: Json, pattern: Json, location: str, profile: str) -> Iterator[str]:
    """The differences between a coding and a pattern, as HL7's validator lists them."""
    for key, member in pattern.items():
        level = "ValidationMessage[level=ERROR,type=VALUE,location"
        if key not in coding:
            message = f"Missing element '{key}' - required by fixed value assigned in profile {profile}"
            yield f"{level}={location}.coding.{key},message={message}]"
        elif not _fits(coding[key], member, exact=False):
            message = f"Value is '{_text(coding[key])}' but must be '{_text(member)}'"
            yield f"{level}={location}.coding.{key},message={message}]"


def _text(value: Json) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
