"""`_include` and `_revinclude`: what the matches refer to, and what refers to them.

Each round's resources come in the order of a Java HashSet of their numbers, as in HAPI.
"""

from __future__ import annotations

from collections.abc import Sequence

from fhir_server.interactions.context import Exchange
from fhir_server.search.hashing import java_set_order
from fhir_server.search.indexer import index
from fhir_server.search.parameters import parameters, resource_types
from fhir_server.search.query import Include
from fhir_server.store import Row
from fhir_server.store.rows import local
from fhir_server.wire.jsontext import decode

MAX_ROUNDS = 10


def included(exchange: Exchange, matches: Sequence[Row], includes: Sequence[Include]) -> list[Row]:
    """The included resources of a page, without the matches: first what refers to them, then what these and the matches
    refer to; each round in its own order.
    """
    found = _rounds(exchange, matches, [one for one in includes if one.reverse])
    return found + _rounds(exchange, [*matches, *found], [one for one in includes if not one.reverse])


def _rounds(exchange: Exchange, matches: Sequence[Row], includes: Sequence[Include]) -> list[Row]:
    seen = {row.pid for row in matches}
    found: list[Row] = []
    new = list(matches)
    for turn in range(MAX_ROUNDS):
        pids: list[int] = []
        for one in includes:
            if turn == 0 or one.iterate:
                pids += referring(exchange, new, one) if one.reverse else referred(exchange, new, one)
        order = [pid for pid in java_set_order(pids) if pid not in seen]
        if not order:
            break
        seen.update(order)
        new = exchange.store.rows(order)
        found += new
    return found


def referred(exchange: Exchange, rows: Sequence[Row], include: Include) -> list[int]:
    """The numbers of the resources that one of the rows refers to, in the order of the references."""
    pids = []
    for row in rows:
        if include.source not in ("*", row.type) or row.text is None:
            continue
        for name, _, reference in index(decode(row.text)).references:
            if include.param not in ("*", name):
                continue
            kind, _, resource_id = local(reference).partition("/")
            if include.target and kind != include.target:
                continue
            target = exchange.store.find(kind, resource_id)
            if target is not None and target.text is not None:
                pids.append(target.pid)
    return pids


def referring(exchange: Exchange, rows: Sequence[Row], include: Include) -> list[int]:
    """The numbers of the resources that refer to one of the rows, ascending."""
    sources = resource_types() if include.source == "*" else (include.source,)
    params = exchange.hospital.params
    numbers = [
        params.number(source, name)
        for source in sources
        for name, parameter in parameters(source).items()
        if parameter.kind == "reference" and include.param in ("*", name)
    ]
    targets = [row.reference for row in rows if not include.target or row.type == include.target]
    pids: set[int] = set()
    for target in targets:
        for start in range(0, len(numbers), 500):
            part = numbers[start : start + 500]
            sql = f"SELECT pid FROM links WHERE param IN ({','.join('?' * len(part))}) AND target = ?"
            pids.update(row[0] for row in exchange.store.query(sql, (*part, target)))
    return sorted(pids)
