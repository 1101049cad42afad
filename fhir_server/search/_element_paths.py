"""Compiles the FHIRPath of search parameters to paths of JSON keys, with the type of the values at the end.

R4's search parameters use a small part of FHIRPath: paths, unions, `as`, `as()`, `ofType()`, `where()` with one
literal, and `where(resolve() is T)`. Since the types of the elements are known, an expression becomes one path of keys
for each type at its end. Walking a path needs only a few dictionary look-ups.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from fhir_server import definitions
from fhir_server.wire.json_values import Json

Keep = Callable[[Json], bool]
Walk = Callable[[Json], list[Json]]

_CAST = re.compile(r"\((.+) as (\w+)\)|(.+) as (\w+)")
_STEP = re.compile(r"(\w+)(?:\(((?:[^()]|\(\))*)\))?(?:\[(\d+)\])?")
_EQUALS = re.compile(r"(\w+)='([^']*)'")
_NOTHING: Final[list[Json]] = []
_RESOLVES: Final = "resolve() is "


@dataclass(frozen=True, slots=True)
class ElementPath:
    """The path to values of a parameter: `keys` from the resource down, a filter before each key, and their type.

    `codes` is the closed code list of the element. `target` is the type in `resolve() is`. `path` is the FHIRPath as
    in HAPI's messages.
    """

    keys: tuple[str, ...]
    filters: tuple[Keep | None, ...]
    type_name: str
    codes: str | None = None
    target: str | None = None
    path: str = ""

    def walk(self) -> Walk:
        """A function that takes the value of the first key and returns the list of values at the end."""
        steps = tuple(zip(self.keys[1:], self.filters[:-1], strict=True))
        last = self.filters[-1]
        if not steps and last is None:
            return _as_list
        if len(steps) == 1 and steps[0][1] is None and last is None:
            return _walk_one(steps[0][0])

        def walk(value: Json) -> list[Json]:
            values = _as_list(value)
            for key, keep in steps:
                reached: list[Json] = []
                for item in values:
                    inner = item.get(key) if keep is None or keep(item) else None
                    if type(inner) is list:
                        reached += inner
                    elif inner is not None:
                        reached.append(inner)
                values = reached
            return values if last is None else [item for item in values if last(item)]

        return walk


def _walk_one(key: str) -> Walk:
    """A walk of one step without a filter, such as `code.coding`. Most walks are of this format."""

    def walk(value: Json) -> list[Json]:
        if type(value) is dict:
            inner = value.get(key)
            if inner is None:
                return _NOTHING
            return inner if type(inner) is list else [inner]
        reached: list[Json] = []
        for item in value:
            reached += walk(item)
        return reached

    return walk


def _as_list(value: Json) -> list[Json]:
    return value if type(value) is list else [value]


def compile_path(expression: str, base: str) -> list[ElementPath]:
    """The paths of an expression over the type `base`. Elements that R4 does not define do not get a path."""
    paths: list[ElementPath] = []
    for alternative in expression.split(" | "):
        paths += _compile_alternative(alternative.strip(), base)
    return paths


def _compile_alternative(text: str, base: str) -> list[ElementPath]:
    path = text
    cast = _CAST.match(text)
    if cast:
        inner, type_name = (cast[1], cast[2]) if cast[1] else (cast[3], cast[4])
        text = f"{inner}.as({type_name}){text[cast.end() :]}"
    cursors = [ElementPath((), (), base, path=path)]
    for position, step in enumerate(_STEP.finditer(text)):
        name, argument = step[1], step[2]
        if step[3] is not None:
            return []  # `Bundle.entry[0].resource`: HAPI does not index inline resources
        if position == 0 and name in (base, "Resource", "DomainResource") and argument is None:
            continue
        cursors = _filtered(cursors, name, argument) if argument is not None else _descend(cursors, name)
    return [cursor for cursor in cursors if cursor.keys]


def _descend(cursors: list[ElementPath], name: str) -> list[ElementPath]:
    """The paths extended by one element, one for each of its types."""
    extended = []
    for cursor in cursors:
        if definitions.is_primitive(cursor.type_name) or cursor.type_name == "Resource":
            continue
        named = [element for element in definitions.elements(cursor.type_name) if element.stem == name]
        extended += [_extended(cursor, element, declared) for element in named for declared in element.types]
    return extended


def _extended(path: ElementPath, element: definitions.Element, declared: definitions.ElementType) -> ElementPath:
    return replace(
        path,
        keys=(*path.keys, element.key(declared)),
        filters=(*path.filters, None),
        type_name=declared.name,
        codes=element.codes,
    )


def _filtered(cursors: list[ElementPath], function: str, argument: str) -> list[ElementPath]:
    if function in ("as", "ofType"):
        return [cursor for cursor in cursors if cursor.type_name.lower() == argument.lower()]
    if function != "where":
        return []
    if argument.startswith(_RESOLVES):
        return [replace(cursor, target=argument.removeprefix(_RESOLVES)) for cursor in cursors]
    equals = _EQUALS.fullmatch(argument)
    if equals is None:
        return []
    keep = _equals(equals[1], equals[2])
    return [replace(cursor, filters=(*cursor.filters[:-1], keep)) for cursor in cursors]


def _equals(key: str, literal: str) -> Keep:
    def keep(item: Json) -> bool:
        return bool(item.get(key) == literal)

    return keep
