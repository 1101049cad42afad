"""The nodes that FHIRPath expressions are evaluated over: JSON values, each with its FHIR type by R4's definitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import cache
from itertools import zip_longest
from typing import NamedTuple

from fhir_server import definitions
from fhir_server.wire.json_values import Json, Number


class Node(NamedTuple):
    """A value, its type (`Patient`, `Observation.component`, `code` …), and for a scalar the value of its `_key`.

    `place` is the object that contains it, its key, and its position in the list; None if it is not in an object.
    """

    value: Json
    type_name: str
    extra: dict[str, Json] | None = None
    place: tuple[dict[str, Json], str, int] | None = None

    def children(self) -> Iterator[Node]:
        """The nodes below this one."""
        for key in self._object():
            if not key.startswith("_") and key != "resourceType":
                yield from self.child(key)
            elif key.startswith("_") and key[1:] not in self.value:
                yield from self.child(key[1:])

    def child(self, key: str) -> Iterator[Node]:
        """The nodes at a JSON key, or at the name of a choice (`value` for `valueQuantity`)."""
        members = self._object()
        for name, type_name in keys(self.type_name).get(key, ()):
            pairs = zip_longest(_listed(members.get(name)), _listed(members.get(f"_{name}")))
            for place, (value, extra) in enumerate(pairs):
                if type_name == "Resource" and isinstance(value, dict):
                    yield Node(value, str(value.get("resourceType")), None, (members, name, place))
                elif value is not None or extra is not None:
                    yield Node(value, type_name, extra if isinstance(extra, dict) else None, (members, name, place))

    def contained(self, reference: str) -> Node | None:
        """The contained resource that a reference (`#x`) names, or None."""
        inside = self.value.get("contained", ()) if reference.startswith("#") else ()
        one = next((one for one in inside if one.get("id") == reference[1:]), None)
        return None if one is None else Node(one, str(one.get("resourceType")))

    def _object(self) -> dict[str, Json]:
        if isinstance(self.value, dict):
            return self.value
        return self.extra or {}

    @property
    def has_value(self) -> bool:
        """Whether it is a scalar with a value."""
        return self.value is not None and not isinstance(self.value, dict)

    @property
    def comparable(self) -> Json:
        """The value in a form that compares as FHIRPath requires: numbers by amount."""
        if isinstance(self.value, (int, Number, Decimal)) and not isinstance(self.value, bool):
            return Decimal(str(self.value))
        return self.value


def _listed(value: Json) -> list[Json]:
    return value if isinstance(value, list) else [] if value is None else [value]


@cache
def keys(type_name: str) -> Mapping[str, tuple[tuple[str, str], ...]]:
    """The JSON keys of each element by its name, each key with its type; the keys of a choice are names too."""
    by_name: dict[str, tuple[tuple[str, str], ...]] = {}
    if definitions.is_primitive(type_name):
        type_name = "Element"
    try:
        listed = definitions.elements(type_name)
    except KeyError:
        return by_name
    for element in listed:
        pairs = tuple((element.key(declared), declared.name) for declared in element.types)
        by_name[element.stem] = pairs
        if element.is_choice:
            by_name.update({pair[0]: (pair,) for pair in pairs})
    return by_name
