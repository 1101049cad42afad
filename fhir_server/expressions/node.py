"""The nodes that FHIRPath expressions are evaluated over: JSON values, each with its FHIR type by R4's definitions.

A value that an expression computes has one of FHIRPath's own types, such as `System.Integer`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from functools import cache
from itertools import zip_longest
from typing import NamedTuple, TypeAlias

from fhir_server import definitions
from fhir_server.expressions.errors import FhirPathError
from fhir_server.expressions.units import unit
from fhir_server.expressions.values import Moment, Quantity, Value, calendar, in_utc, moment
from fhir_server.wire.json_values import Json, Number

UCUM = "http://unitsofmeasure.org"
TYPE_INFO = "System.TypeInfo"
_MOMENTS = {
    "date": "Date",
    "dateTime": "DateTime",
    "instant": "DateTime",
    "time": "Time",
    "System.Date": "Date",
    "System.DateTime": "DateTime",
    "System.Time": "Time",
}
_INTEGERS = frozenset(("integer", "positiveInt", "unsignedInt", "System.Integer"))
_DECIMALS = frozenset(("decimal", "System.Decimal"))
_QUANTITIES = frozenset(
    ("Quantity", "Age", "Count", "Distance", "Duration", "MoneyQuantity", "SimpleQuantity", "System.Quantity")
)
_PARENTS = {
    **dict.fromkeys(("code", "id", "markdown"), "string"),
    **dict.fromkeys(("url", "canonical", "uuid", "oid"), "uri"),
    **dict.fromkeys(("positiveInt", "unsignedInt"), "integer"),
    **dict.fromkeys(_QUANTITIES - {"Quantity", "System.Quantity"}, "Quantity"),
    **dict.fromkeys(("Bundle", "Binary", "Parameters"), "Resource"),
    "BackboneElement": "Element",
    "DomainResource": "Resource",
}
_PRIMITIVES = frozenset(
    (
        *("base64Binary", "boolean", "code", "date", "dateTime", "decimal", "id", "instant", "integer", "markdown"),
        *("oid", "positiveInt", "string", "time", "unsignedInt", "uri", "url", "canonical", "uuid", "xhtml"),
    )
)
_SYSTEM = frozenset(("Boolean", "String", "Integer", "Decimal", "Date", "DateTime", "Time", "Quantity"))


class Node(NamedTuple):
    """A value, its type (`Patient`, `Observation.component`, `code` …), and for a scalar the value of its `_key`.

    `place` is the object that contains it, its key, and its position in the list; None if it is not in an object.
    `codes` is HAPI's name of the closed list that a code is from.
    """

    value: Json
    type_name: str
    extra: dict[str, Json] | None = None
    place: tuple[dict[str, Json], str, int] | None = None
    codes: str | None = None

    def children(self) -> Iterator[Node]:
        """The nodes below this one."""
        members = self._object()
        for key in members:
            if not key.startswith("_") and key != "resourceType":
                yield from self.child(key)
            elif key.startswith("_") and key[1:] not in members:
                yield from self.child(key[1:])

    def child(self, name: str) -> Iterator[Node]:
        """The nodes at a JSON key, or at the name of a choice (`value` for `valueQuantity`)."""
        members = self._object()
        for key, type_name, codes in keys(self.type_name).get(name, ()):
            pairs = zip_longest(_listed(members.get(key)), _listed(members.get(f"_{key}")))
            for position, (value, extra) in enumerate(pairs):
                if type_name == "Resource" and isinstance(value, dict):
                    yield Node(value, str(value.get("resourceType")), None, (members, key, position))
                elif value is not None or extra is not None:
                    beside = extra if isinstance(extra, dict) else None
                    yield Node(value, type_name, beside, (members, key, position), codes)

    def contained(self, reference: str) -> Node | None:
        """The contained resource that a reference (`#x`) names, or None."""
        inside = self.value.get("contained", ()) if reference.startswith("#") else ()
        matches = (resource for resource in inside if resource.get("id") == reference[1:])
        resource = next(matches, None)
        return None if resource is None else Node(resource, str(resource.get("resourceType")))

    def _object(self) -> dict[str, Json]:
        if isinstance(self.value, dict):
            return self.value
        return self.extra or {}

    @property
    def has_value(self) -> bool:
        """Whether it has a value, and not only extensions; an empty text is none, as in HAPI."""
        return self.value is not None and self.value != ""

    @property
    def has_scalar(self) -> bool:
        """Whether it has a value that is not an object."""
        return self.value is not None and not isinstance(self.value, dict)

    @property
    def is_system(self) -> bool:
        """Whether an expression computed it."""
        return self.type_name.startswith("System.")


Nodes: TypeAlias = list[Node]


def computed(value: Value) -> Node:
    """A node for a value that is not part of a resource."""
    match value:
        case bool():
            return Node(value, "System.Boolean")
        case str():
            return Node(value, "System.String")
        case int():
            return Node(value, "System.Integer")
        case Decimal():
            return Node(value, "System.Decimal")
        case Moment():
            return Node(str(value), f"System.{value.kind}")
    quantity = {"value": Number(f"{value.value:f}"), "unit": value.unit}
    if not calendar(value.unit):
        quantity |= {"system": UCUM, "code": value.unit}
    return Node(quantity, "System.Quantity")


def value_of(node: Node) -> Value | None:
    """The value of a node as FHIRPath computes with it; None for an object, or a scalar without a value.

    A text that is not of the format of its type stays a text.
    """
    value, type_name = node.value, node.type_name
    if isinstance(value, (bool, str)) and type_name not in _MOMENTS and not isinstance(value, Number):
        return value
    if value is None:
        return None
    if type_name in _MOMENTS:
        return moment(str(value), _MOMENTS[type_name]) or str(value)
    if isinstance(value, dict):
        return _quantity(value) if type_name in _QUANTITIES else None
    return _number(value, type_name)


def _number(value: Json, type_name: str) -> Value:
    try:
        if type_name in _INTEGERS and not isinstance(value, Decimal):
            return int(value)
        return Decimal(str(value))
    except (ValueError, InvalidOperation):
        return str(value)


def _quantity(value: dict[str, Json]) -> Quantity | None:
    try:
        amount = Decimal(str(value["value"]))
    except (KeyError, InvalidOperation):
        return None
    code = value.get("code") if value.get("system") == UCUM else None
    return Quantity(amount, str(code or value.get("unit") or value.get("code") or "1"))


def in_fhir(node: Node) -> Node:
    """A computed value as a FHIR value, with the FHIR type of the same name; other nodes unchanged."""
    if node.type_name == "xhtml":
        return Node(node.value, "string")
    if not node.is_system or node.type_name == TYPE_INFO:
        return node
    name = node.type_name.removeprefix("System.")
    value = Number(f"{node.value:f}") if isinstance(node.value, Decimal) else node.value
    return Node(value, name if name == "Quantity" else name[0].lower() + name[1:])


def key(node: Node) -> tuple[object, ...]:
    """Equal for nodes that are equal by value, at any depth."""
    value = value_of(node)
    match value:
        case None:
            return ("object", json.dumps([_plain(node.value), _plain(node.extra)], sort_keys=True, default=str))
        case bool() | str():
            return (type(value).__name__, value)
        case Moment():
            return ("moment", value.kind == "Time", in_utc(value).fields, value.offset is None)
        case Quantity():
            return ("quantity", value.amount(), value.code in ("year", "month") or frozenset(_bases(value)))
    return ("number", value)


def _bases(quantity: Quantity) -> frozenset[tuple[str, int]]:
    return unit(quantity.code).bases


def _plain(value: Json) -> Json:
    """A JSON value whose numbers are equal if their amounts are."""
    if isinstance(value, dict):
        return {name: _plain(member) for name, member in value.items() if name != "id"}
    if isinstance(value, list):
        return [_plain(member) for member in value]
    if isinstance(value, bool) or not isinstance(value, (int, float, Number, Decimal)):
        return value
    return ["number", f"{Decimal(str(value)).normalize():f}"]


def is_type(node: Node, name: str, *, exactly: bool = False) -> bool:
    """Whether a node is of a type, or of one that is derived from it. The namespace `FHIR` or `System` may precede.

    Raises:
        FhirPathError: the type is not known.
    """
    namespace, _, plain = name.rpartition(".")
    if not _is_known(namespace, plain):
        raise FhirPathError(f"{name} is not a type of FHIR R4")
    if node.is_system:
        return plain == "Element" or node.type_name == f"System.{plain[:1].upper()}{plain[1:]}"
    if namespace == "System":
        return False
    return node.type_name == plain if exactly else plain in _ancestors(node.type_name)


@cache
def _is_known(namespace: str, name: str) -> bool:
    if namespace == "System" or (not namespace and name in _SYSTEM):
        return True
    if namespace not in ("", "FHIR"):
        return False
    return name in _PRIMITIVES or name in _PARENTS.values() or (name[:1].isupper() and bool(keys(name)))


@cache
def _ancestors(type_name: str) -> frozenset[str]:
    """A type, and those that it is derived from."""
    types = [type_name]
    while types[-1] in _PARENTS:
        types.append(_PARENTS[types[-1]])
    if definitions.is_resource_type(types[-1]):
        types += ["DomainResource", "Resource"]
    elif types[-1] not in ("Resource", "Element"):
        types += ["BackboneElement", "Element"] if "." in type_name else ["Element"]
    return frozenset(types)


def _listed(value: Json) -> list[Json]:
    if isinstance(value, list):
        return value
    return [] if value is None else [value]


@cache
def choice_keys(type_name: str) -> frozenset[str]:
    """The JSON keys of a type that are not names of elements: `valueQuantity` for `value`."""
    if definitions.is_primitive(type_name) or type_name.startswith("System."):
        type_name = "Element"
    try:
        elements = definitions.elements(type_name)
    except KeyError:
        return frozenset()
    return frozenset(element.key(declared) for element in elements if element.is_choice for declared in element.types)


@cache
def keys(type_name: str) -> Mapping[str, tuple[tuple[str, str, str | None], ...]]:
    """The JSON keys of each element by its name; the keys of a choice are names too.

    Each key is followed by its type, and by the closed list of its codes or None.
    """
    by_name: dict[str, tuple[tuple[str, str, str | None], ...]] = {}
    if type_name == TYPE_INFO:
        return {name: ((name, "System.String", None),) for name in ("namespace", "name")}
    if type_name == "System.Quantity":
        type_name = "Quantity"
    if definitions.is_primitive(type_name):
        type_name = "Element"
    try:
        elements = definitions.elements(type_name)
    except KeyError:
        return by_name
    for element in elements:
        declared_keys = tuple((element.key(declared), declared.name, element.codes) for declared in element.types)
        by_name[element.stem] = declared_keys
        if element.is_choice:
            by_name.update({declared_key[0]: (declared_key,) for declared_key in declared_keys})
    return by_name
