"""Deleting, by id and by condition."""

from __future__ import annotations

from fhir_server.errors import FhirError
from fhir_server.interactions.context import Exchange
from fhir_server.interactions.matching import matching
from fhir_server.interactions.put import stored_rows
from fhir_server.interactions.read import location
from fhir_server.interactions.write import versioned
from fhir_server.search.indexer import index
from fhir_server.store import Row
from fhir_server.store.rows import local
from fhir_server.wire import outcome
from fhir_server.wire.http import Response, escape, split_target
from fhir_server.wire.jsontext import decode
from fhir_server.wire.outcome import Stored, stored_outcome


def delete(exchange: Exchange, kind: str, resource_id: str) -> Response:
    """`DELETE Type/id`."""
    with exchange.store.transaction():
        row, stored = delete_resource(exchange, kind, resource_id)
    address = location(exchange.base, row) if row else f"{exchange.base}/{kind}/{escape(resource_id)}"
    return exchange.respond(200, stored_outcome(stored), [("Content-Location", address)])


def delete_resource(exchange: Exchange, kind: str, resource_id: str) -> tuple[Row | None, Stored]:
    """Deletes a resource if it is there; the row is that of the deletion, None for what never was."""
    row = exchange.store.find(kind, resource_id)
    if row is None:
        return None, outcome.never_existed(f"{kind}/{resource_id}")
    if row.text is None:
        return row, outcome.already_deleted(versioned(row))
    return _mark(exchange, row), outcome.deleted(1)


def delete_by_condition(exchange: Exchange, kind: str) -> Response:
    """`DELETE Type?…`: the one match."""
    _, query = split_target(exchange.request.target)
    if not exchange.pairs:
        raise FhirError(400, "HAPI-0967: Can not perform delete, no ID provided")
    with exchange.store.transaction():
        stored = delete_matches(exchange, kind, query)
    return exchange.respond(200, stored_outcome(stored))


def delete_matches(exchange: Exchange, kind: str, query: str) -> Stored:
    """Deletes the one resource that meets a condition."""
    matches = matching(exchange, kind, query, limit=-1)
    shown = f"{kind}?{query}"
    if len(matches) > 1:
        raise FhirError(
            412,
            f'HAPI-0962: Failed to DELETE {kind} with match URL "{shown}"'
            f" because this search matched {len(matches)} resources",
        )
    if not matches:
        return outcome.nothing_matched(shown)
    row = exchange.store.rows(matches)[0]
    _mark(exchange, row)
    return outcome.deleted(1)


def _mark(exchange: Exchange, row: Row) -> Row:
    """Deletes a resource, if nothing refers to it; in a transaction that is seen at the end (`check_deleted`)."""
    if exchange.in_transaction:
        exchange.deleted.append(row)
    elif exchange.hospital.reference_check:
        check_not_referred_to(exchange, row)
    gone = Row(row.pid, row.type, row.id, row.version + 1, exchange.now, None)
    exchange.store.replace(row, stored_rows(exchange, row), gone, {})
    return gone


def check_deleted(exchange: Exchange) -> None:
    """Raises 409 where something refers to what the transaction deleted and did not put again."""
    for row in exchange.deleted:
        now = exchange.store.find(row.type, row.id)
        if exchange.hospital.reference_check and now is not None and now.text is None:
            check_not_referred_to(exchange, row)


def check_not_referred_to(exchange: Exchange, row: Row) -> None:
    """Raises 409 where another resource refers to this one."""
    found = first_referring(exchange, row)
    if found is None:
        return
    assert found.text is not None
    path = next(one.path for one in index(decode(found.text)).references if local(one.reference) == row.reference)
    raise FhirError(
        409,
        f"Unable to delete {row.reference} because at least one resource has a reference to this resource."
        f" First reference found was resource {found.reference} in path {path}",
    )


def first_referring(exchange: Exchange, row: Row) -> Row | None:
    """The first other resource that refers to this one, by insertion."""
    numbers = exchange.hospital.params.references
    pids: list[int] = []
    for start in range(0, len(numbers), 400):
        part = numbers[start : start + 400]
        marks = ",".join("?" * len(part))
        sql = f"SELECT min(pid) FROM links WHERE param IN ({marks}) AND target = ? AND pid <> ?"
        first = exchange.store.query(sql, (*part, row.reference, row.pid)).fetchone()[0]
        if first is not None:
            pids.append(first)
    rows = exchange.store.rows([min(pids)]) if pids else []
    return rows[0] if rows else None
