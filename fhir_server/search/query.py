"""Parses the pairs of a query string into a `Query`: criteria, sort order, includes, and the format of the searchset.

Escapes and errors are HAPI's (observed in 7.6.0).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from fhir_server.errors import ERROR_LENGTH, FhirError
from fhir_server.resources.summary import Subset
from fhir_server.search.condition import Criterion, split
from fhir_server.search.hashing import java_hash, java_order
from fhir_server.search.kinds import KINDS
from fhir_server.search.parameters import ParameterRegistry, resource_types
from fhir_server.wire.http import Pairs, sanitised

FULLTEXT = ("_text", "_content")
_LABELS = ("_tag", "_security")
RESULT_PARAMETERS = frozenset(
    "_sort _count _offset _total _summary _elements _include _revinclude _pretty _format _contained _containedType"  # noqa: SIM905  # words: as a list they are harder to read
    " _getpages _getpagesoffset _bundletype _maxresults _type _graph _mdm _score".split()
)


class SortKey(NamedTuple):
    """A parameter to sort by. `chain` is a parameter of the resources that it refers to, which are of the type `target`
    (None: the request does not state it).
    """

    parameter: str
    chain: str = ""
    target: str | None = None


@dataclass(frozen=True, slots=True)
class Include:
    """`_include` or `_revinclude`: source type, parameter (`*` for all), target type or empty."""

    source: str
    param: str
    target: str
    reverse: bool
    iterate: bool
    text: str


@dataclass(slots=True)
class Query:
    """A parsed search. A match must meet all `criteria`. `accurate`: `_total=accurate`."""

    resource_type: str
    criteria: list[Criterion] = field(default_factory=list)
    sort: list[tuple[SortKey, bool]] = field(default_factory=list)
    count: int | None = None
    offset: int | None = None
    accurate: bool = False
    subset: Subset = field(default_factory=Subset)
    includes: list[Include] = field(default_factory=list)


def parse(registry: ParameterRegistry, resource_type: str, pairs: Pairs) -> Query:
    """Parses a search. Raises FhirError with HAPI's message."""
    names = tuple([name for name, _ in pairs])
    if "_query" in names or "_getpages" in names:
        raise unhandled("GET", resource_type, java_order(reversed(names), java_hash))
    first = dict(reversed(pairs))  # HAPI reports errors in these first
    count, offset = (whole(name, first.get(name, "")) for name in ("_count", "_offset"))
    query = Query(resource_type, count=count, offset=offset, accurate=dict(pairs).get("_total") == "accurate")
    for place, base, modifier in _checked(registry, resource_type, names):
        name, value = pairs[place]
        if base not in RESULT_PARAMETERS:
            query.criteria += criteria(registry, resource_type, name, value)
        elif base == "_sort":
            _sort(registry, query, modifier, value)
        elif base in ("_include", "_revinclude"):
            query.includes += _includes(registry, base, modifier, value)
        elif base == "_contained" and value not in ("", "false"):
            if value in _CONTAINED:
                raise FhirError(405, _CONTAINED[value])
            raise FhirError(400, f"HAPI-1963: Invalid contained mode: {value}")
    query.includes = java_order(query.includes, _include_hash)
    query.subset = subset(pairs, resource_type)
    return query


@lru_cache(maxsize=1024)
def _checked(registry: ParameterRegistry, resource_type: str, sent: tuple[str, ...]) -> Sequence[tuple[int, str, str]]:
    """The places of the names in HAPI's order, each with the name's base and modifier.

    Raises the errors that HAPI reports before it looks at values: a date with both limits and `:missing`, and unknown
    parameters. Cached, since most searches differ only in values.
    """
    names = java_order(sent, java_hash)
    known = registry.parameters(resource_type)
    for name in names:
        base, _, modifier = name.partition(":")
        if modifier == "missing" and base in names and base in known and KINDS[known[base].kind].combines:
            problem = "Can not have multiple date range parameters for the same param without a qualifier"
            raise FhirError(400, f"HAPI-1922: {problem}")
    for name in names:
        base = name.partition(".")[0].partition(":")[0]
        if base not in known and not base.startswith("_"):
            raise unknown_parameter(registry, resource_type, sanitised(base) if name else "null")
    ordered = sorted(range(len(sent)), key=lambda place: names.index(sent[place]))
    parts = [(place, sent[place].partition(":")) for place in ordered]
    return [(place, base, modifier) for place, (base, _, modifier) in parts]


def subset(pairs: Iterable[tuple[str, str]], resource_type: str = "") -> Subset:
    """The subset of `_summary` and `_elements`. An unknown `_summary` is ignored.

    Elements without a type are those of `resource_type`, the type in the URL, if there is one.
    """
    of = f"{resource_type}." if resource_type else ""
    summary, elements = "", []
    for name, value in pairs:
        if name == "_summary" and value.lower() in ("true", "text", "data", "count"):
            summary = value.lower()
        elif name == "_elements":
            if ":" in value:
                raise FhirError(400, f'HAPI-0295: Invalid _elements value: "{value}"')
            elements += [part if part[:1].isupper() else of + part for part in value.split(",") if part.strip()]
    if summary and elements:
        raise FhirError(400, "HAPI-0304: Cannot combine the _summary and _elements parameters", dated=True)
    return Subset(summary, tuple(elements))


def unhandled(method: str, path: str, names: Iterable[str] = ()) -> FhirError:
    """HAPI's error if no operation matches the request, which has parameters with these names."""
    return FhirError(
        400,
        "Invalid request: The FHIR endpoint on this server does not know how to handle"
        f" {method} operation[{path}] with parameters [[{', '.join(names)}]]",
        "not-supported",
    )


_CONTAINED = {
    "true": "HAPI-0984: Searching with _contained mode enabled is not enabled on this server",
    "both": "HAPI-0983: Contained mode 'both' is not currently supported",
}
"""The errors for the modes of `_contained`."""


def whole(name: str, text: str) -> int | None:
    """The integer (32 bits, as in Java) of a result parameter; None without a value."""
    number = integer(text)
    if number is None and text.strip():
        raise FhirError(400, f"HAPI-{'0461' if name == '_offset' else '0375'}: Invalid {name} value: {text}")
    return number


def integer(text: str) -> int | None:
    """The integer (32 bits, as in Java) in a text; None if it is not one."""
    number = int(text) if re.fullmatch(r"[+-]?[0-9]{1,10}", text) else 2**31
    return number if -(2**31) <= number < 2**31 else None


@lru_cache(maxsize=4096)
def criteria(
    registry: ParameterRegistry, resource_type: str, name: str, value: str, *, nested: bool = False
) -> Sequence[Criterion]:
    """The criteria of one pair. Empty for an empty value, and for an unknown name that begins with `_`.

    `nested`: the pair is from a chain or `_has`. Only then may a date have alternatives.
    """
    if name.startswith("_has:"):
        return [Criterion("_has", "", split(value, ","), name[5:])]
    full, dot, chain = name.partition(".")
    base, _, modifier = full.partition(":")
    if base in FULLTEXT:
        raise FhirError(
            400, f"HAPI-1192: Fulltext search is not enabled on this service, can not process parameter: {base}"
        )
    if not dot and ":" in modifier:
        modifier = modifier.rpartition(":")[2]
    if base in _LABELS and modifier not in ("not", "missing"):
        modifier = ""  # HAPI ignores all others
    parameter = registry.parameters(resource_type).get(base)
    if parameter is None:
        if base in ("_filter", "_list"):
            return [Criterion(base, "", (value,))] if value else []
        if base == "_has":
            raise FhirError(400, "HAPI-1942: Invalid _has parameter syntax: _has")
        if base == "_language":
            unknown = unknown_parameter(registry, resource_type, base, "1223")
            raise FhirError(unknown.status, unknown.diagnostics[:ERROR_LENGTH])
        if base.startswith("_"):
            return []
        raise unknown_parameter(registry, resource_type, sanitised(base))
    if dot and parameter.kind != "reference":
        why = "chains are not supported for this parameter (chaining is only allowed on reference parameters)"
        problem = f'Invalid search parameter "{name}". Parameter contains a chain (.{chain})'
        raise FhirError(400, f"HAPI-1935: {problem} and {why}")
    kind = KINDS[parameter.kind]
    as_given = base == "_id" or base in _LABELS or modifier == "text"
    bar = "|" if base == "_id" or base in _LABELS else ""  # HAPI ignores an empty system there
    listed = (part.removeprefix(bar) for part in split(value, ","))
    parts = (part if as_given and part.strip() else kind.cleaned(part) for part in listed)
    values = tuple(filter(None, parts))
    if base in _LABELS and any(part.endswith("|") and part.count("|") == 1 for part in values):
        problem = f"Missing {base} parameter (must supply a value/code and not just a system): {value}"
        raise FhirError(400, f"HAPI-1218: {problem}")
    if not values and modifier == "missing" and not dot:
        return [Criterion(base, modifier, ("false",))]
    if not values and nested and kind.combines:  # a date then matches any date
        return [Criterion(base, "missing", ("false",))]
    if not values and not dot:
        return kind.without_value(Criterion(base, modifier, (), chain))
    if kind.combines and len(values) > 1 and modifier != "missing" and not dot and not nested:
        raise FhirError(400, "HAPI-1930: DateRange parameter does not support OR queries")
    return [Criterion(base, modifier, values, chain)]


def unknown_parameter(registry: ParameterRegistry, resource_type: str, name: str, number: str = "0524") -> FhirError:
    """HAPI's error for an unknown parameter, with the sorted list of known ones."""
    listed = ", ".join(sorted(registry.parameters(resource_type)))
    return FhirError(
        400,
        f'HAPI-{number}: Unknown search parameter "{name}" for resource type "{resource_type}".'
        f" Valid search parameters for this search are: [{listed}]",
    )


def _sort(registry: ParameterRegistry, query: Query, modifier: str, value: str) -> None:
    if modifier not in ("", "asc", "desc"):
        return
    whole_value = bool(modifier or query.sort)  # HAPI reads a list and signs only in the first `_sort`
    for name in (value,) if whole_value else value.split(","):
        descending = modifier == "desc"
        if name[:1] == "-" and not whole_value:
            name, descending = name[1:], True
        if not name.strip():
            continue
        query.sort.append((_sort_key(registry, query.resource_type, name), descending))


def _sort_key(registry: ParameterRegistry, resource_type: str, name: str) -> SortKey:
    """Reads `parameter`, `parameter.chain` or HAPI's `Type:parameter.chain`."""
    target, typed, path = name.partition(":") if ":" in name else ("", "", name)
    if path.count(".") > 1:
        problem = "can not chain more than once in a sort expression"
        raise FhirError(400, f"HAPI-2286: Invalid _sort expression, {problem}: {path}")
    parameter, _, chain = path.partition(".")
    known = registry.parameters(resource_type)
    if parameter not in known:
        raise unknown_sort("1194", parameter, resource_type, known)
    return SortKey(parameter, chain, target if typed else None)


def unknown_sort(code: str, name: str, resource_type: str, valid: Iterable[str]) -> FhirError:
    """HAPI's error for a sort by an unknown parameter."""
    message = (
        f'HAPI-{code}: Unknown _sort parameter value "{sanitised(name)}" for resource type "{resource_type}"'
        " (Note: sort parameters values must use a valid Search Parameter)."
        f" Valid values for this search are: [{', '.join(sorted(valid))}]"
    )
    return FhirError(400, message[:ERROR_LENGTH])


def _include_hash(include: Include) -> int:
    """HAPI's hash of an include."""
    return (31 * (31 + (1231 if include.iterate else 1237)) + java_hash(include.text)) & 0xFFFFFFFF


def _includes(registry: ParameterRegistry, name: str, modifier: str, text: str) -> list[Include]:
    """The include of a value; none if the value is blank."""
    values = [part.replace("\\,", ",") for part in split(text, ",") if part.strip()]
    if len(values) > 1:
        problem = "'OR' query parameters (values containing ',') are not supported in _include parameters"
        raise FhirError(400, f"HAPI-0441: {problem}")
    return [_include(registry, name, modifier, value) for value in values]


def _include(registry: ParameterRegistry, name: str, modifier: str, value: str) -> Include:
    reverse, iterate = name == "_revinclude", modifier in ("iterate", "recurse")
    if value == "*":
        return Include("*", "*", "", reverse, iterate, value)
    source, _, rest = value.partition(":")
    param, _, target = rest.partition(":")
    if not source or not param:
        raise FhirError(400, f'HAPI-2018: Invalid {name} parameter value: "{sanitised(value)}". ')
    for number, kind in (("2017", source), ("2016", target)):
        if kind and kind not in resource_types():
            problem = f'Invalid {name} parameter value: "{value}". Invalid/unsupported resource type: "{kind}"'
            raise FhirError(400, f"HAPI-{number}: {problem}")
    known = registry.parameters(source)
    if param != "*" and param not in known:
        listed = ", ".join(sorted(key for key, parameter in known.items() if parameter.kind == "reference"))
        raise FhirError(
            400,
            f'HAPI-2015: Invalid {name} parameter value: "{value}". Unknown search parameter "{param}"'
            f' for resource type "{source}". Valid search parameters for this search are: [{listed}]',
        )
    return Include(source, param, target, reverse, iterate, value)
