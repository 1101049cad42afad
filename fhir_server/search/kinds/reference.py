"""References. A value is an id, `Type/id` or a URL. Chains are in `search/_chains.py`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from fhir_server.errors import FhirError
from fhir_server.resources.references import target, without_version
from fhir_server.search._element_paths import ElementPath
from fhir_server.search._join_order import LINK
from fhir_server.search.condition import Condition, Criterion, of_type, placeholders, unescape
from fhir_server.search.kinds.kind import Extractor, IndexRows, Kind, ReferenceRow, SearchScope, TableRow, unless_blank
from fhir_server.search.parameters import SearchParameter, resource_types
from fhir_server.wire.json_values import Json

TARGET = (
    "(SELECT aim.row_id FROM resources AS aim WHERE aim.type = substr(target, 1, instr(target, '/') - 1)"
    " AND aim.id = substr(target, instr(target, '/') + 1))"
)
"""SQL for the `row_id` of the target of a row in `links`."""
MODIFIERS = ("contains", "exact", "in", "iterate", "missing", "not-in", "of-type", "recurse", "text")
"""The modifiers that HAPI lists in its error for an unknown one."""
_LOWER_CASE = frozenset(map(str.lower, resource_types()))
"""The types in lower case: another letter case is not an error, but matches nothing."""
ALLOWED = frozenset(("", *MODIFIERS, *resource_types()))


def extractor(parameter: SearchParameter, path: ElementPath) -> Extractor | None:
    """The extractor of references, except those to contained resources."""
    if path.type_name not in ("Reference", "canonical"):
        return None
    name, target_type, place, is_object = parameter.name, path.target, path.path, path.type_name == "Reference"
    canonical = not is_object

    def extract(rows: IndexRows, values: list[Json]) -> None:
        for value in values:
            reference = value.get("reference") if is_object else value
            if reference is None or reference[0] == "#" or (target_type and target(reference).type != target_type):
                continue
            rows["reference"].append(ReferenceRow(name, place, reference, canonical))

    return extract


def table_rows(rows: list[ReferenceRow], numbers: Mapping[str, int], row_id: int) -> list[TableRow]:
    """Rows of the table `links`. A canonical URL with a version gets a second row without it."""
    links = [
        (numbers[row.parameter], without_version(row.reference), row_id) for row in rows if row.reference[0] != "#"
    ]
    versioned = (row for row in rows if row.canonical and "|" in row.reference)
    links += [(numbers[row.parameter], row.reference.partition("|")[0], row_id) for row in versioned]
    return links


_RELATIVE = re.compile(r"(?!.*://).+/((\w+)/[^/]+)")
"""A reference after a path, which HAPI ignores."""


def conditions(scope: SearchScope, parameter: SearchParameter, criterion: Criterion) -> list[Condition]:
    """The condition that the resource refers to one of the values."""
    number = scope.number(parameter.name)
    targets: list[str] = []
    for value in map(unescape, criterion.values):
        value, types = without_version(value).removeprefix("/"), target_types(criterion, parameter)
        kind, slash, resource_id = value.partition("/")
        if not slash and value:
            targets += (f"{kind}/{value}" for kind in types)
            continue
        if not resource_id:
            raise _missing_value()
        if match := _RELATIVE.fullmatch(value):
            value, kind = match[1], match[2]
        if not criterion.modifier and ":" not in kind and kind.lower() not in _LOWER_CASE:
            raise unsupported_type(kind)
        if not criterion.modifier or kind in types:
            targets.append(value)
    if not targets:
        return [of_type(scope.resource_type, "0")]
    single = len(targets) == 1
    where = f"param = ? AND target {'= ?' if single else f'IN ({placeholders(targets)})'}"
    order = TARGET if len(criterion.values) > 1 else ""
    return [Condition("links", where, (number, *targets), order, weight=1, access=LINK, clustered=single)]


def unsupported_type(name: str) -> FhirError:
    """HAPI's error for an unknown type in a reference."""
    return FhirError(400, f'HAPI-1250: Invalid/unsupported resource type: "{name}"')


def target_types(criterion: Criterion, parameter: SearchParameter) -> Sequence[str]:
    """The possible types of an id without a type."""
    if criterion.modifier in resource_types():
        return (criterion.modifier,)
    if criterion.modifier:
        raise unsupported_type(criterion.modifier)
    return _pointed_to(parameter)


@cache
def _pointed_to(parameter: SearchParameter) -> Sequence[str]:
    """The target types of a parameter: those that its path resolves to, otherwise its targets, otherwise any."""
    only = re.findall(r"resolve\(\) is (\w+)", parameter.expression)
    return tuple(only) or parameter.targets or resource_types()


def check_modifiers(resource_type: str, criterion: Criterion, criteria: Iterable[Criterion]) -> None:
    """Raises HAPI-2498 if the modifier of a reference is neither a type nor a known modifier. HAPI then lists the
    modifiers of all criteria, also those in chains.
    """
    if criterion.chain or criterion.modifier in ALLOWED:
        return
    named = (f"{criterion.modifier}.{criterion.chain}".rstrip(".").rpartition(":")[2] for criterion in criteria)
    unsupported = ", ".join(f":{chain}" for chain in dict.fromkeys(named) if chain[:1] != "." and chain not in ALLOWED)
    listed = ", ".join(f":{known}" for known in MODIFIERS)
    raise FhirError(
        400,
        f'HAPI-2498: Unsupported search modifier(s): "[{unsupported}]" for resource type "{resource_type}".'
        f" Valid search modifiers are: [{listed}]",
    )


def without_value(criterion: Criterion) -> list[Criterion]:
    """Raises HAPI-1101: a reference without a value. HAPI looks at other modifiers than types first."""
    if criterion.modifier and criterion.modifier not in resource_types():
        return [Criterion(criterion.name, criterion.modifier, ("",), criterion.chain)]
    raise _missing_value()


def _missing_value() -> FhirError:
    return FhirError(400, "HAPI-1101: Parameter value missing in request")


KIND = Kind(
    "reference",
    conditions,
    "links",
    ("param", "target", "row_id"),
    extractor,
    table_rows,
    sort_key=TARGET,
    cleaned=unless_blank,
    without_value=without_value,
)
