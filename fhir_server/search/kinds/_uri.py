"""URIs. A value matches the same URI; with `:below` also those that begin with it, with `:above` those that it begins
with, whole segments or not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from fhir_server.search import names
from fhir_server.search.condition import AFTER_ALL, Condition, Criterion, either, placeholders, unescape
from fhir_server.search.kinds.kind import TEXTS, IndexRows, Kind, SearchScope, TableRow, by_type, unless_blank
from fhir_server.search.parameters import SearchParameter
from fhir_server.wire.json_values import Json

Row: TypeAlias = tuple[str, str]
"""Parameter, URI."""
LONGEST = 500
"""`:above` matches URIs up to this length, as HAPI's index does."""
_TEXT: Final = names.text("value")
_BETWEEN: Final = names.where("value", "names.text >= ? AND names.text < ?")
_OF_REQUEST: Final = names.where("value", "substr(names.text, instr(names.text, '#')) = ?")


def _uri(rows: IndexRows, name: str, value: Json) -> None:
    if value is not None:
        rows["uri"].append((name, value))


def table_rows(rows: list[Row], numbers: Mapping[str, int], row_id: int) -> list[TableRow]:
    return [(numbers[name], value, row_id) for name, value in rows]


def conditions(scope: SearchScope, parameter: SearchParameter, criterion: Criterion) -> list[Condition]:
    """The condition that the resource contains one of the URIs."""
    number, modifier = scope.number(parameter.name), criterion.modifier
    if parameter.name == "_source" and not modifier:
        return [_sources(number, criterion.values)]
    parts: list[str] = []
    args: list[object] = [number]
    for value in map(unescape, criterion.values):
        if modifier == "below":
            parts.append(_BETWEEN)
            args += (value, value + AFTER_ALL)
        elif modifier == "above":
            above = [value[:end] for end in range(1, min(len(value), LONGEST) + 1)]
            parts.append(f"value IN ({placeholders(above)})")
            args += map(names.number, above)
        else:
            parts.append("value = ?")
            args.append(names.number(value))
    in_order = modifier in ("above", "below") and not parameter.name.startswith("_")
    order = _TEXT if in_order else ""
    return [Condition("uris", f"param = ? AND {either(parts)}", tuple(args), order, 2)]


def _sources(number: int, values: Sequence[str]) -> Condition:
    """`_source`: `uri`, `#request` or `uri#request` of `meta.source`."""
    parts: list[str] = []
    args: list[object] = [number]
    for value in map(unescape, values):
        uri, _, request = value.partition("#")
        if request:
            parts.append("value = ?" if uri else _OF_REQUEST)
            args.append(names.number(value) if uri else value)
        else:
            parts.append(f"value = ? OR {_BETWEEN}")
            args += (names.number(uri), f"{uri}#", f"{uri}$")
    return Condition("uris", f"param = ? AND {either([f'({part})' for part in parts])}", tuple(args), "", 2)


def without_value(criterion: Criterion) -> list[Criterion]:
    """An empty value is compared like any other; HAPI ignores it for `_profile` and `_source`."""
    if criterion.name.startswith("_") or criterion.chain:
        return []
    return [Criterion(criterion.name, criterion.modifier, ("",))]


KIND = Kind(
    "uri",
    conditions,
    "uris",
    ("param", "value", "row_id"),
    by_type(dict.fromkeys(TEXTS, _uri)),
    table_rows,
    sort_key=_TEXT,
    named="value",
    cleaned=unless_blank,
    without_value=without_value,
)
