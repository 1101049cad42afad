"""Strings: the text begins with the value, without regard to case and accents. Also `:exact` and `:contains`."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from fhir_server.errors import ERROR_LENGTH, FhirError
from fhir_server.search._join_order import CONTAINS, EQUAL, STARTS_WITH
from fhir_server.search.condition import AFTER_ALL, Condition, Criterion, either, unescape
from fhir_server.search.kinds.kind import (
    OTHER_PRIMITIVES,
    TEXTS,
    IndexRows,
    Kind,
    SearchScope,
    TableRow,
    ValueExtractor,
    by_type,
    spelled,
)
from fhir_server.search.parameters import SearchParameter
from fhir_server.wire.json_values import Json

Row: TypeAlias = tuple[str, str, str]
"""Parameter, the folded text (see `fold`), the original text."""

TEXT_LIMIT: Final = 768
"""Only this many characters of a text are indexed, as in HAPI's columns."""
_HUMAN_NAME: Final = ("family", "given", "text", "prefix", "suffix")
_ADDRESS: Final = ("line", "city", "district", "state", "country", "postalCode")


def fold(text: str) -> str:
    """A text without case and accents, for comparison (HAPI: NFD, accents dropped, upper case)."""
    if text.isascii():
        return text.upper()
    decomposed = unicodedata.normalize("NFD", text)
    return "".join(c for c in decomposed if not "\u0300" <= c <= "\u036f").upper()


def add(rows: IndexRows, name: str, value: Json) -> None:
    """Adds the row of a text, unless it is None or blank."""
    if value and not value.isspace():
        cut = value[:TEXT_LIMIT]
        rows["string"].append((name, fold(cut)[:TEXT_LIMIT], cut))


def _primitive(rows: IndexRows, name: str, value: Json) -> None:
    add(rows, name, spelled(value))


def _parts(keys: tuple[str, ...]) -> ValueExtractor:
    """An extractor of these members, which are texts or lists of texts."""

    def extract(rows: IndexRows, name: str, value: Json) -> None:
        for key in keys:
            part = value.get(key)
            for text in part if type(part) is list else (part,):
                add(rows, name, text)

    return extract


_EXTRACTORS: Final[dict[str, ValueExtractor]] = {
    "HumanName": _parts(_HUMAN_NAME),
    "Address": _parts(_ADDRESS),
    "ContactPoint": _parts(("value",)),
    **dict.fromkeys(TEXTS, add),
    **dict.fromkeys(OTHER_PRIMITIVES, _primitive),
}


def table_rows(rows: list[Row], numbers: Mapping[str, int], row_id: int) -> list[TableRow]:
    """Rows of the table `strings`."""
    return [(numbers[name], folded, row_id, exact) for name, folded, exact in rows]


def conditions(scope: SearchScope, parameter: SearchParameter, criterion: Criterion) -> list[Condition]:
    """The condition that a text of the resource matches one of the values."""
    return [condition(scope, parameter.name, criterion.values, criterion.modifier)]


def condition(scope: SearchScope, name: str, values: Sequence[str], modifier: str) -> Condition:
    """A condition on texts. An underscore matches any character, as in HAPI's LIKE."""
    parts: list[str] = []
    args: list[object] = [scope.number(name)]
    for value in map(unescape, values):
        if len(value) > TEXT_LIMIT:
            problem = f"Parameter[{name}] has length ({len(value)}) that is longer than maximum allowed ({TEXT_LIMIT})"
            raise FhirError(400, f"HAPI-1260: {problem}: {value}"[:ERROR_LENGTH])
        folded = fold(value)
        if modifier == "exact":
            parts.append("norm = ? AND exact = ?")
            args += (folded, value)
        elif modifier == "contains":
            parts.append("norm LIKE ? ESCAPE '\\'")
            args.append(f"%{_like(folded)}%")
        else:
            head = folded.partition("_")[0]
            parts.append("norm >= ? AND norm < ?" + (" AND norm LIKE ? ESCAPE '\\'" if head != folded else ""))
            args += (head, head + AFTER_ALL, *((f"{_like(folded)}%",) if head != folded else ()))
    access = CONTAINS if modifier == "contains" or not all(values) else STARTS_WITH
    if modifier == "exact":
        access = EQUAL
    return Condition("strings", f"param = ? AND {either(parts)}", tuple(args), "norm", 3, access=access)


def _like(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%")


def without_value(criterion: Criterion) -> list[Criterion]:
    """An empty value matches every text, and with `:exact` none. In a chain, HAPI ignores it."""
    modifier = "exact" if criterion.modifier == "exact" else ""
    return [] if criterion.chain else [Criterion(criterion.name, modifier, ("",))]


KIND = Kind(
    "string",
    conditions,
    "strings",
    ("param", "norm", "row_id", "exact"),
    by_type(_EXTRACTORS),
    table_rows,
    sort_key="norm",
    without_value=without_value,
)
