"""Tokens: `code`, `system|code`, `|code`, `system|`. `:not` matches none of them, `:text` matches the display text.

For `:text`, the display of a coding is a string row of the same parameter (observed in HAPI FHIR 7.6.0).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

from fhir_server import definitions
from fhir_server.errors import FhirError
from fhir_server.search import names
from fhir_server.search._element_paths import ElementPath, compile_path
from fhir_server.search._join_order import CODE, SYSTEM, SYSTEM_AND_CODE
from fhir_server.search.condition import Condition, Criterion, either, escaped, split, unescape
from fhir_server.search.hashing import index_hash
from fhir_server.search.kinds import string
from fhir_server.search.kinds.kind import (
    OTHER_PRIMITIVES,
    TEXTS,
    Extractor,
    IndexRows,
    Kind,
    SearchScope,
    TableRow,
    ValueExtractor,
    each,
    spelled,
)
from fhir_server.search.parameters import SearchParameter
from fhir_server.terminology import Library, NotExpandable, concepts, expand
from fhir_server.wire.http import escape
from fhir_server.wire.json_values import Json

Row: TypeAlias = tuple[str, str, str]
"""Parameter, system, value. System and value are "" if they are missing."""


def add(rows: IndexRows, name: str, system: str | None, value: str | None) -> None:
    """Adds a token row unless system and value are both missing."""
    if system or value:
        rows["token"].append((name, system or "", value or ""))


def _text(rows: IndexRows, name: str, value: Json) -> None:
    add(rows, name, None, value)


def _primitive(rows: IndexRows, name: str, value: Json) -> None:
    add(rows, name, None, spelled(value))


def _coding(rows: IndexRows, name: str, value: Json) -> None:
    add(rows, name, value.get("system"), value.get("code"))
    string.add(rows, name, value.get("display"))


def _concept(rows: IndexRows, name: str, value: Json) -> None:
    string.add(rows, name, value.get("text"))
    for coding in value.get("coding", ()):
        _coding(rows, name, coding)


def _identifier(rows: IndexRows, name: str, value: Json) -> None:
    """Adds an identifier or contact point, if there is a value."""
    if "value" in value:
        add(rows, name, value.get("system"), value["value"])


def _enumerated(codes: str) -> ValueExtractor:
    """An extractor of codes of a closed list, which gives the system of each code."""
    systems = definitions.codes(codes)

    def extract(rows: IndexRows, name: str, value: Json) -> None:
        if value is not None:
            add(rows, name, systems[value], value)

    return extract


_EXTRACTORS: Final[dict[str, ValueExtractor]] = {
    "CodeableConcept": _concept,
    "Coding": _coding,
    "Identifier": _identifier,
    "ContactPoint": _identifier,
    **dict.fromkeys(TEXTS, _text),
    **dict.fromkeys(OTHER_PRIMITIVES, _primitive),
}


def extractor(parameter: SearchParameter, path: ElementPath) -> Extractor | None:
    """The extractor of codes, identifiers, booleans and texts."""
    extract = _enumerated(path.codes) if path.codes else _EXTRACTORS.get(path.type_name)
    return each(parameter.name, extract) if extract else None


def table_rows(rows: list[Row], numbers: Mapping[str, int], row_id: int) -> list[TableRow]:
    return [(numbers[name], value, row_id, system) for name, system, value in rows]


def conditions(scope: SearchScope, parameter: SearchParameter, criterion: Criterion) -> list[Condition]:
    """The condition that the resource contains one of the codes."""
    number, modifier = scope.number(parameter.name), criterion.modifier
    if modifier == "of-type":
        raise FhirError(405, "HAPI-2012: The :of-type modifier is not enabled on this server")
    if modifier == "text":
        return [string.condition(scope, parameter.name, criterion.values, "")]
    if modifier in ("in", "not-in"):
        return [_by_value_set(scope, parameter.name, criterion.values, within=modifier == "in")]
    values: Sequence[str] = criterion.values
    if modifier in ("above", "below"):
        values = _in_hierarchy(scope, parameter, values, above=modifier == "above")
        if not values:
            return [Condition("tokens", "param = ? AND 0", (number,), weight=0)]
    parts = [_part(value) for value in values]
    args = (number, *(arg for _, part_args, _ in parts for arg in part_args))
    where = f"param = ? AND {either([sql for sql, _, _ in parts])}"
    spread = any(sql == _SYSTEM for sql, _, _ in parts)
    clustered, access = len(parts) == 1 and not spread, _ACCESS[parts[0][0]]
    condition = Condition("tokens", where, args, weight=2, access=access, clustered=clustered, spread=spread)
    if modifier == "not":
        return [replace(condition, negated=True)]
    # Only alternatives of the same format are in one index of hashes, and so in its order.
    if len(parts) > 1 and len({sql for sql, _, _ in parts}) == 1:
        return [_by_hash(condition, (scope.resource_type, parameter.name), parts)]
    return [condition]


def _by_value_set(scope: SearchScope, name: str, values: Sequence[str], *, within: bool) -> Condition:
    """The condition that the resource contains a code in one of the value sets, or a code that is in none of them.

    All codes are one argument (JSON), since they may be more than SQLite's maximum number of arguments.
    """
    # HAPI splits at a bar as in a token, not as before a version, and uses the text after it as the URL.
    urls = [unescape(split(value, "|")[-1]) for value in values]
    codes = [pair for url in urls for pair in _codes(scope.library, url)]
    number, access = scope.number(name), SYSTEM_AND_CODE
    if within or not codes:  # with no codes, HAPI's `:not-in` matches nothing
        listed = "SELECT json_extract(pair.value, '$[0]'), json_extract(pair.value, '$[1]') FROM json_each(?) AS pair"
        where, order = f"param = ? AND (system, value) IN ({listed})", f"token_hash(?, ?, {_SYSTEM_TEXT}, value)"
        args = number, json.dumps([(names.number(of), code) for of, code in codes])
        order_args = scope.resource_type, name
        return Condition("tokens", where, args, order, 3, order_args=order_args, access=access)
    # System and code are one text here: with pairs, SQLite would read the whole list for each row that is not in it.
    where = f"param = ? AND {_PAIR} NOT IN (SELECT value FROM json_each(?))"
    args = number, json.dumps([f"{names.number(of)}\x01{code}" for of, code in codes])
    return Condition("tokens", where, args, f"{_SYSTEM_TEXT} || char(1) || value", 3, access=access)


def _in_hierarchy(
    scope: SearchScope, parameter: SearchParameter, values: Sequence[str], *, above: bool
) -> Sequence[str]:
    """The codes with all codes above or below them in their code systems. Unknown codes are left out.

    Raises:
        FhirError: HAPI-1239 or HAPI-1240. A value is without a code, or without a system (unless it is a code of a
            closed list).
    """
    paths = compile_path(parameter.expression, scope.resource_type)
    closed = {code: system for path in paths if path.codes for code, system in definitions.codes(path.codes).items()}
    listed: list[str] = []
    for value in values:
        system, *rest = map(unescape, split(value, "|"))
        code = "|".join(rest) if rest else system
        if rest and system and not code:
            problem = f"No system specified: {system}|(missing)"
            raise FhirError(400, f"HAPI-1239: Invalid token specified for parameter {parameter.name} - {problem}")
        if (rest and not system) or (not rest and code not in closed):
            problem = f"No code specified: (missing)|{code}"
            raise FhirError(400, f"HAPI-1240: Invalid token specified for parameter {parameter.name} - {problem}")
        system = system if rest else closed[code]
        known = concepts(scope.library.code_system(system) or {})
        if code not in known:
            continue
        others = known[code].above if above else [below for below, concept in known.items() if code in concept.above]
        listed += [f"{escaped(system)}|{escaped(member)}" for member in (code, *others)]
    return listed


_PAIR: Final = "system || char(1) || value"
"""SQL for the system's number and the code of a row as one text."""
_SYSTEM_TEXT: Final = names.text("system")


def _codes(library: Library, url: str) -> list[tuple[str, str]]:
    """The system and code of each code in a value set. Empty for a value set without `compose`, as in HAPI."""
    value_set = library.value_set(url)
    if value_set is None:
        raise FhirError(404, f"HAPI-2024: Unknown ValueSet: {escape(url)}")
    try:
        return [(coded.system, coded.code) for coded in expand(value_set, library)] if "compose" in value_set else []
    except NotExpandable as error:
        raise FhirError(400, f"HAPI-0888: The codes of the ValueSet {url} cannot be listed: {error}") from error


_CODE, _SYSTEM, _BOTH = "value = ?", "system = ?", "value = ? AND system = ?"
_ACCESS: Final = {_CODE: CODE, _SYSTEM: SYSTEM, _BOTH: SYSTEM_AND_CODE}
_Part: TypeAlias = tuple[str, tuple[str | int, ...], tuple[str, ...]]


def _part(value: str) -> _Part:
    """SQL for a condition on a token's row, its arguments, and the parts of the token that HAPI hashes."""
    system, *rest = split(value, "|")
    if not rest:
        code = unescape(system)
        return _CODE, (code,), (code,)
    system, code = unescape(system.strip()), unescape("|".join(rest).strip())
    if not code:
        return _SYSTEM, (names.number(system),), (system,)
    return _BOTH, (code, names.number(system)), (system, code)


def _by_hash(condition: Condition, name: tuple[str, str], parts: Sequence[_Part]) -> Condition:
    """The condition with the alternatives in the order of their hashes."""
    ordered = sorted(parts, key=lambda part: index_hash(*name, *part[2]))
    cases = " ".join(f"WHEN {sql} THEN {rank}" for rank, (sql, _, _) in enumerate(ordered))
    args: tuple[Any, ...] = tuple(arg for _, part_args, _ in ordered for arg in part_args)
    return replace(condition, order=f"CASE {cases} END", order_args=args)


def cleaned(value: str) -> str:
    """The value without blanks around it. A bar alone becomes ""."""
    stripped = value.strip()
    return "" if stripped.replace(" ", "") == "|" else stripped


def _sort_key(missing: str) -> str:
    """SQL for the system, then the code. `missing` stands for one that is missing, which comes last."""
    system = f"coalesce(nullif({_SYSTEM_TEXT}, ''), {missing})"
    return f"{system} || char(1) || coalesce(nullif(value, ''), {missing})"


KIND = Kind(
    "token",
    conditions,
    "tokens",
    ("param", "value", "row_id", "system"),
    extractor,
    table_rows,
    sort_key=_sort_key("char(1114111)"),
    sort_key_descending=_sort_key("''"),
    named="system",
    cleaned=cleaned,
)
