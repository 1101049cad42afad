"""URIs. A value matches the same URI; `:below` also those that begin with it, `:above` those that it begins with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from fhir_server.search import names
from fhir_server.search.condition import AFTER_ALL, Condition, Criterion, either, placeholders, unescape
from fhir_server.search.kinds.kind import TEXTS, IndexRows, Kind, Scope, TableRow, by_type
from fhir_server.search.parameters import SearchParameter
from fhir_server.wire.json_values import Json

Row: TypeAlias = tuple[str, str]
"""Parameter, URI."""
_BETWEEN: Final = names.where("value", "names.text >= ? AND names.text < ?")
_OF_REQUEST: Final = names.where("value", "substr(names.text, instr(names.text, '#')) = ?")


def _uri(rows: IndexRows, name: str, value: Json) -> None:
    if value is not None:
        rows["uri"].append((name, value))


def table_rows(rows: list[Row], numbers: Mapping[str, int], row_id: int) -> list[TableRow]:
    return [(numbers[name], value, row_id) for name, value in rows]


def conditions(scope: Scope, parameter: SearchParameter, criterion: Criterion) -> list[Condition]:
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
            above = _prefixes(value)
            parts.append(f"value IN ({placeholders(above)})")
            args += map(names.number, above)
        else:
            parts.append("value = ?")
            args.append(names.number(value))
    return [Condition("uris", f"param = ? AND {either(parts)}", tuple(args), "", 2)]


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


def _prefixes(url: str) -> list[str]:
    """The URL and the URLs above it: the URL cut at each slash of its path."""
    start = url.find("//")
    cuts = [i for i, letter in enumerate(url) if letter == "/" and i > (start + 1 if start >= 0 else 0)]
    urls = [url, *(url[:i] for i in reversed(cuts)), *(url[: i + 1] for i in reversed(cuts))]
    return list(dict.fromkeys(urls))[:200]


KIND = Kind(
    "uri",
    conditions,
    "uris",
    ("param", "value", "row_id"),
    by_type(dict.fromkeys(TEXTS, _uri)),
    table_rows,
    sort_key=names.text("value"),
    named="value",
)
