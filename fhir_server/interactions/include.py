"""`_include` and `_revinclude`: the resources that the matches refer to, and those that refer to the matches.

As in HAPI, they are in the order of a Java HashSet of their numbers. The resources of includes that are followed once
are in one set, those of all rounds of `:iterate` in another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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

    First the resources that refer to the matches, then those that the matches and the first ones refer to. If a
    `_revinclude` has `:iterate`, the plain `_include`s come first, so that it finds what refers to their resources too.
    """
    forward = _Walk(context, [include for include in includes if not include.reverse])
    reverse = _Walk(context, [include for include in includes if include.reverse])
    if any(include.iterate for include in reverse.includes):
        once = forward.once(matches, matches)
        referring_rows = reverse.whole([*matches, *once])
        return once + referring_rows + forward.iterated([*matches, *once, *referring_rows])
    referring_rows = reverse.whole(matches)
    return referring_rows + forward.whole([*matches, *referring_rows])


@dataclass(frozen=True, slots=True)
class _Walk:
    """Follows includes of one direction: each once, or those with `:iterate` in rounds."""

    context: RequestContext
    includes: Sequence[Include]

    def whole(self, rows: Sequence[Version]) -> list[Version]:
        """The resources of the includes that are followed once, then of those with `:iterate`."""
        once = self.once(rows, rows)
        return once + self.iterated([*rows, *once])

    def once(self, rows: Sequence[Version], known: Sequence[Version], *, iterate: bool = False) -> list[Version]:
        """The resources of one round, without known ones."""
        row_ids: list[int] = []
        for include in self.includes:
            if include.iterate == iterate:
                find = referring if include.reverse else referred
                row_ids += find(self.context, rows, include)
        seen = {row.row_id for row in known}
        return self.context.store.rows([row_id for row_id in java_order(row_ids, id_hash) if row_id not in seen])

    def iterated(self, rows: Sequence[Version]) -> list[Version]:
        """The resources of the includes with `:iterate`."""
        again: dict[int, Version] = {}
        new = list(rows)
        for _ in range(MAX_ROUNDS):
            new = self.once(new, [*rows, *again.values()], iterate=True)
            if not new:
                break
            again |= {row.row_id: row for row in new}
        return [again[row_id] for row_id in java_order(again, id_hash)]


def referred(context: RequestContext, rows: Sequence[Version], include: Include) -> list[int]:
    """The numbers of the resources that the rows refer to, in the order of the references."""
    row_ids: list[int] = []
    numbers: dict[tuple[str, bool], list[int]] = {}
    for row in rows:
        of_type = include.source in ("*", row.type) or (include.iterate and include.param == "*")  # as HAPI
        if not of_type or row.text is None:
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
