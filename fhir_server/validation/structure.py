"""Checks the shape of a resource: unknown, empty and missing elements, and lists or objects in the wrong places.

The walk yields every present element of a known type for the other checks.

Also the result of a validation: issues, and the report to which the checks add them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from typing import NamedTuple

from fhir_server import definitions
from fhir_server.definitions import Field
from fhir_server.expressions.node import Node
from fhir_server.wire.json_values import Json, Number

_OF_INNER = re.compile(r"/\*[^*]*\*/")
"""The type and id of an inner resource in a location."""


class Issue(NamedTuple):
    """One problem of a resource, as an OperationOutcome reports it.

    `severity` is `error`, `warning` or `information`; `location` is the FHIRPath of the element. `message_id` is the
    identifier of HL7's validator for this kind of problem, if there is one. The line number is the location's, or its
    `key`'s if that is set.
    """

    severity: str
    diagnostics: str
    location: str
    message_id: str = ""
    key: str = ""


@dataclass(slots=True)
class Report:
    """The issues of one resource, in the order of the checks."""

    issues: list[Issue] = field(default_factory=list)

    def error(self, diagnostics: str, location: str, message_id: str = "", key: str = "") -> None:
        """Adds an error."""
        self.issues.append(Issue("error", diagnostics, location, message_id, key))

    def malformed(self, diagnostics: str, location: str, key: str = "") -> None:
        """Adds an error of HL7's parser, which omits the types and ids of resources in resources."""
        self.error(_OF_INNER.sub("", diagnostics), _OF_INNER.sub("", location), key=key)

    def warn(self, diagnostics: str, location: str, message_id: str = "") -> None:
        """Adds a warning."""
        self.issues.append(Issue("warning", diagnostics, location, message_id))

    def inform(self, diagnostics: str, location: str, message_id: str = "") -> None:
        """Adds an issue of severity `information`."""
        self.issues.append(Issue("information", diagnostics, location, message_id))


_PROFILE = "http://hl7.org/fhir/StructureDefinition/"
_NUMBERS = frozenset(("integer", "positiveInt", "unsignedInt", "decimal"))


class Place(NamedTuple):
    """A present element: its value and type, its location, and the path of its definition."""

    node: Node
    location: str
    path: str
    owner: Json
    """The object that contains the element."""
    codes: str | None = None
    """The name of the closed list of its codes, if there is one."""
    resource: Node | None = None
    """The resource that contains the element."""


def places(resource: Json, report: Report, location: str = "") -> Iterator[Place]:
    """The elements of a resource at any depth, the resource itself first. Problems of their shape are reported."""
    kind = str(resource.get("resourceType"))
    node = Node(resource, kind)
    yield Place(node, location or kind, kind, resource, resource=node)
    yield from _object(resource, kind, location or kind, report, node)


def _object(value: Json, type_name: str, location: str, report: Report, resource: Node) -> Iterator[Place]:
    known = definitions.fields(type_name)
    present: set[str] = set()
    for key in value:
        if key == "fhir_comments" or (key == "resourceType" and value is resource.value):
            continue
        field = known.get(key.removeprefix("_"))
        if field is None or (key[0] == "_" and not definitions.is_primitive(field.type_name)):
            report.malformed(f"Unrecognized property '{key}'", location, key=key)
        elif key[0] == "_":
            present.add(field.element.name)
        else:
            values = list(_element(value, key, field, location, report))
            if values:
                present.add(field.element.name)
            yield from _below(values, type_name, field, value, report, resource)
    _check_missing(type_name, location, present, report, resource.type_name)


def _element(owner: Json, key: str, field: Field, location: str, report: Report) -> Iterator[tuple[Json, Json, str]]:
    """An element's values of the right shape, each with the value of `_key` and its location."""
    value, beside = owner[key], owner.get(f"_{key}")
    name = _shown(key, field)
    if field.element.many:
        if not isinstance(value, list):
            report.malformed(
                f"The property {key} must be a JSON Array, not {_kind(value)} (at {location})", f"{location}.{name}"
            )
            value = [value]
        elif not value and not definitions.is_primitive(field.type_name):
            report.malformed(
                "Array cannot be empty - the property should not be present if it has no values", f"{location}.{name}"
            )
        besides = beside if isinstance(beside, list) else []
        for number, item in enumerate(value):
            sibling = besides[number] if number < len(besides) else None
            at = f"[{number}]" if isinstance(owner[key], list) else ""
            if _fits(item, sibling, key, field, f"{location}.{name}{at}", report):
                yield item, sibling, f"{location}.{name}[{number}]"
    elif _fits(value, beside, key, field, f"{location}.{name}", report):
        yield value, beside, f"{location}.{name}"


def _fits(value: Json, beside: Json, key: str, field: Field, location: str, report: Report) -> bool:
    """Whether the shape of a value is right for its type; reports it if not."""
    if not definitions.is_primitive(field.type_name):
        if isinstance(value, dict):
            if not value:
                report.malformed("Object must have some content", location)
            return True
        expected = "an Array" if field.element.many else "an Object"
        place = location.replace(f".ofType({field.type_name})", "[x]")
        at_key = key if field.element.is_choice else ""
        report.malformed(f"The property {key} must be {expected}, not {_kind(value)} (at {place})", place, at_key)
        return False
    if isinstance(value, (dict, list)) or (value is None and beside is None):
        report.malformed(f"This property must be a simple value, not {_kind(value)} ({key} at {location})", location)
        return False
    if value is not None:
        _check_scalar(value, field.type_name, location, report)
    return True


def _check_scalar(value: Json, type_name: str, location: str, report: Report) -> None:
    expected = "string"
    if type_name == "boolean":
        expected = "boolean"
    elif type_name in _NUMBERS:
        expected = "number"
    if isinstance(value, bool):
        actual = "boolean"
    else:
        actual = "number" if isinstance(value, (int, Number, Decimal)) else "string"
    if expected != actual:
        report.malformed(f"Error parsing JSON: the primitive value must be a {expected}", location)
    elif value == "":
        report.malformed("value cannot be empty", location)
        message = "Constraint failed: ele-1: 'All FHIR elements must have a @value or children'"
        report.error(f"{message} (defined in {_PROFILE}Element)", location)


def _below(
    values: list[tuple[Json, Json, str]], type_name: str, field: Field, owner: Json, report: Report, resource: Node
) -> Iterator[Place]:
    """The places of an element's values and of the elements in them."""
    path = f"{type_name}.{field.element.name}"
    for value, beside, location in values:
        if field.type_name == "Resource":
            kind = value.get("resourceType")
            if isinstance(kind, str) and definitions.is_resource_type(kind):
                inner = location + f"/*{kind}/{value.get('id', 'null')}*/"
                yield from places(value, report, inner)
            else:
                report.error(f"Unknown resource type '{kind}'", location)
            continue
        extra = beside if isinstance(beside, dict) else None
        node = Node(value, field.type_name, extra)
        yield Place(node, location, path, owner, field.element.codes, resource)
        if isinstance(value, dict):
            yield from _object(value, field.type_name, location, report, resource)
        elif extra is not None:
            yield from _object(extra, "Element", location, report, resource)


@cache
def _required(type_name: str) -> tuple[str, ...]:
    return tuple(element.name for element, _, required in definitions.summary_flags(type_name) if required)


def _check_missing(type_name: str, location: str, present: set[str], report: Report, resource_type: str) -> None:
    profile = resource_type if type_name.startswith(resource_type) else type_name
    for name in _required(type_name):
        if name not in present:
            message = f"{type_name}.{name}: minimum required = 1, but only found 0 (from {_PROFILE}{profile}|4.0.1)"
            report.error(message, location, "Validation_VAL_Profile_Minimum")


def _shown(key: str, field: Field) -> str:
    """An element's name in a location; a choice's name includes the type."""
    return f"{field.element.stem}.ofType({field.type_name})" if field.element.is_choice else key


def _kind(value: Json) -> str:
    if value is None:
        return "a Null"
    if isinstance(value, dict):
        return "an Object"
    return "an Array" if isinstance(value, list) else "a Primitive property"
