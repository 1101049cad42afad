"""`_include` and `_revinclude`: the resources that the matches refer to, and those that refer to the matches.

As in HAPI, they are in the order of a Java HashSet of their numbers. The resources of includes that are followed once
are in one set, those of all rounds of `:iterate` in another one.
"""

from __future__ import annotations

from collections.abc import Sequence

from fhir_server.interactions.context import RequestContext
from fhir_server.resources.references import without_version
from fhir_server.search import names
from fhir_server.search.condition import placeholders
from fhir_server.search.hashing import id_hash, java_order
from fhir_server.search.indexer import references
from fhir_server.search.parameters import resource_types
from fhir_server.search.query import Include
from fhir_server.store import Version
from fhir_server.wire.json_text import decode

MAX_ROUNDS = 10


def included(context: RequestContext, matches: Sequence[Version], includes: Sequence[Include]) -> list[Version]:
    """The included resources of a page, without the matches.

    First the resources that refer to the matches, then those that the matches and the first ones refer to.
    """
    referring_rows = _rounds(context, matches, [one for one in includes if one.reverse])
    return referring_rows + _rounds(context, [*matches, *referring_rows], [one for one in includes if not one.reverse])


def _rounds(context: RequestContext, matches: Sequence[Version], includes: Sequence[Include]) -> list[Version]:
    """The resources of the includes that are followed once, then of the includes with `:iterate`."""
    seen = {row.row_id for row in matches}

    def step(rows: Sequence[Version], iterate: bool) -> list[Version]:
        row_ids: list[int] = []
        for one in includes:
            if one.iterate == iterate:
                row_ids += referring(context, rows, one) if one.reverse else referred(context, rows, one)
        order = [row_id for row_id in java_order(row_ids, id_hash) if row_id not in seen]
        seen.update(order)
        return context.store.rows(order)

    once = step(matches, iterate=False)
    again: dict[int, Version] = {}
    new = [*matches, *once]
    for _ in range(MAX_ROUNDS):
        new = step(new, iterate=True)
        if not new:
            break
        again |= {row.row_id: row for row in new}
    return once + [again[row_id] for row_id in java_order(again, id_hash)]


def referred(context: RequestContext, rows: Sequence[Version], include: Include) -> list[int]:
    """The numbers of the resources that the rows refer to, in the order of the references."""
    row_ids: list[int] = []
    numbers: dict[tuple[str, bool], list[int]] = {}
    for row in rows:
        if include.source not in ("*", row.type) or row.text is None:
            continue
        for _, _, reference, canonical in references(decode(row.text), context.registry, include.param):
            named = reference, canonical
            if named not in numbers:
                find = _of_url if canonical else _of_reference
                numbers[named] = find(context, reference, include.target)
            row_ids += numbers[named]
    return row_ids


def _of_reference(context: RequestContext, reference: str, target: str) -> list[int]:
    """The number of the resource that a reference names; none if it does not exist, or is not of the type `target`."""
    kind, _, resource_id = without_version(reference).partition("/")
    if target and kind != target:
        return []
    row = context.store.find(kind, resource_id)
    return [row.row_id] if row is not None and row.text is not None else []


def _of_url(context: RequestContext, canonical: str, target: str) -> list[int]:
    """The numbers of the resources with a canonical URL, of any version, in ascending order."""
    kinds = (target,) if target else resource_types()
    params = [number for kind in kinds if (number := context.registry.number(kind, "url"))]
    sql = f"SELECT DISTINCT row_id FROM uris WHERE param IN ({placeholders(params)}) AND value = ? ORDER BY row_id"
    url = canonical.partition("|")[0]
    return [row_id for (row_id,) in context.store.query(sql, (*params, names.number(url)))]


def referring(context: RequestContext, rows: Sequence[Version], include: Include) -> list[int]:
    """The numbers of the resources that refer to one of the rows, in ascending order. As in HAPI, `*` does not mean
    references by a canonical URL.
    """
    sources = resource_types() if include.source == "*" else (include.source,)
    registry = context.registry
    numbers = [
        registry.number(source, name)
        for source in sources
        for name, parameter in registry.parameters(source).items()
        if parameter.kind == "reference" and include.param in ("*", name)
    ]
    aims = [row for row in rows if not include.target or row.type == include.target]
    targets = [row.reference for row in aims]
    if include.param != "*":
        targets += [url for row in aims if row.text and isinstance(url := decode(row.text).get("url"), str)]
    sql = f"SELECT row_id FROM links WHERE param IN ({placeholders(numbers)}) AND target = ?"
    return sorted({row_id for target in targets for (row_id,) in context.store.query(sql, (*numbers, target))})
