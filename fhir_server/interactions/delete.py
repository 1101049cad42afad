"""Deletes, by id and conditional."""

from __future__ import annotations

from fhir_server.errors import FhirError
from fhir_server.interactions._matching import matching, several_match
from fhir_server.interactions.context import RequestContext
from fhir_server.interactions.integrity import check_not_referred_to
from fhir_server.interactions.put import stored_rows
from fhir_server.interactions.read import location
from fhir_server.interactions.write import versioned
from fhir_server.store import Version
from fhir_server.store.own_parameters import put_in_force
from fhir_server.wire import outcome
from fhir_server.wire.http import Response, escape, split_target
from fhir_server.wire.json_text import decode
from fhir_server.wire.outcome import Stored, stored_outcome


def delete(context: RequestContext, kind: str, resource_id: str) -> Response:
    """`DELETE Type/id`."""
    with context.store.transaction():
        row, stored = delete_resource(context, kind, resource_id)
    address = location(context.base, row) if row else f"{context.base}/{kind}/{escape(resource_id)}"
    return context.respond(200, stored_outcome(stored), [("Content-Location", address)])


def delete_resource(context: RequestContext, kind: str, resource_id: str) -> tuple[Version | None, Stored]:
    """Deletes a resource if it exists. Returns the version of the deletion (None if there is none) and the report."""
    row = context.store.find(kind, resource_id)
    if row is None:
        return None, outcome.never_existed(f"{kind}/{resource_id}")
    if row.text is None:
        return row, outcome.already_deleted(versioned(row))
    return _mark(context, row), outcome.deleted(1)


def delete_by_condition(context: RequestContext, kind: str) -> Response:
    """`DELETE Type?…`: deletes the match, if it is the only one."""
    _, query = split_target(context.request.target)
    if not context.pairs:
        raise FhirError(400, "HAPI-0967: Can not perform delete, no ID provided")
    with context.store.transaction():
        stored = delete_matches(context, kind, query)
    return context.respond(200, stored_outcome(stored))


def delete_matches(context: RequestContext, kind: str, query: str) -> Stored:
    """Deletes the one resource that matches a condition. In a Bundle without a condition, deletes none."""
    shown = f"{kind}?{query or 'null'}"
    number = context.store.count().get(kind, 0)
    matches = matching(context, kind, query, limit=-1) if query or number == 1 else ()
    number = len(matches) if query else number
    if number > 1:
        raise several_match("DELETE", kind, shown, number)
    if not matches:
        return outcome.nothing_matched(shown)
    row = context.store.rows(matches)[0]
    _mark(context, row)
    return outcome.deleted(1)


def _mark(context: RequestContext, row: Version) -> Version:
    """Deletes a resource if no other refers to it. In a transaction, `check_deleted` checks this at the end."""
    if context.in_transaction:
        context.deleted.append(row)
    elif context.server.reference_check:
        check_not_referred_to(context, row)
    gone = Version(row.row_id, row.type, row.id, row.version + 1, context.now, None)
    context.store.replace(row, stored_rows(context, row), gone, {})
    if row.type == "SearchParameter":
        put_in_force(context.store, {str(decode(row.text or "{}").get("code"))})
    return gone
