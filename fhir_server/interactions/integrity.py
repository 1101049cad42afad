"""Referential integrity: targets of stored references exist, and a resource that others refer to is not deleted."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fhir_server.errors import FhirError
from fhir_server.interactions.context import RequestContext
from fhir_server.resources.references import is_elsewhere, target, without_version
from fhir_server.search.condition import placeholders
from fhir_server.search.indexer import index
from fhir_server.search.kinds.kind import ReferenceRow
from fhir_server.search.parameters import resource_types
from fhir_server.store import Version


def leads_somewhere(context: RequestContext, reference: str) -> bool:
    """Whether HAPI indexes a reference without checking it: its target exists, or is on another server."""
    kind, resource_id = target(reference)
    if "://" in reference:
        return kind in resource_types()
    name = f"{kind}/{resource_id}"
    if name in context.announced:
        return True
    there = context.store.exists(kind, resource_id)
    if there and context.in_transaction:  # deletes come before, so it stays
        context.announced.add(name)
    return there


def check_references(context: RequestContext, references: Sequence[ReferenceRow]) -> None:
    """Raises HAPI's errors for indexed references that cannot be resolved on this server."""
    resolved: set[str] = set()  # in a Bundle, many resources refer to the same patient
    for _, path, reference, canonical in references:
        if reference in resolved or reference[0] == "#" or (canonical and ("://" in reference or ":" in reference[:4])):
            continue
        if is_elsewhere(reference):
            raise FhirError(
                400,
                f'HAPI-0507: Resource contains external reference to URL "{reference}"'
                " but this server is not configured to allow external references",
            )
        kind, resource_id = target(reference)
        problem = f"Invalid resource reference found at path[{path}] - "
        if not kind:
            raise FhirError(400, f"HAPI-0505: {problem}Does not contain resource type - {reference}")
        if kind not in resource_types():
            unknown = "Resource type is unknown or not supported on this server"
            raise FhirError(400, f"HAPI-0506: {problem}{unknown} - {reference}")
        if not resource_id:
            raise FhirError(400, f"HAPI-0508: {problem}Does not contain resource ID - {reference}")
        row = context.store.find(kind, resource_id) or _numbered(context, resource_id)
        if row is not None and row.type != kind:
            problem = f"Resource contains reference to unknown resource ID {kind}/{resource_id}"
            raise FhirError(422, f"HAPI-1095: {problem}")
        if row is None:
            raise FhirError(400, f"HAPI-1094: Resource {kind}/{resource_id} not found, specified in path: {path}")
        if row.text is None:
            raise FhirError(400, f"HAPI-1096: Resource {kind}/{resource_id} is deleted, specified in path: {path}")
        resolved.add(reference)


def _numbered(context: RequestContext, resource_id: str) -> Version | None:
    """The resource whose number is the id of a reference; HAPI takes it for the target if no resource has the id."""
    rows = context.store.rows([int(resource_id)]) if re.fullmatch("[1-9][0-9]{0,9}", resource_id) else []
    return rows[0] if rows else None


def check_deleted(context: RequestContext) -> None:
    """Raises 409 if a resource refers to one that the transaction deleted and did not create again."""
    for row in context.deleted:
        now = context.store.find(row.type, row.id)
        if context.server.reference_check and now is not None and now.text is None:
            check_not_referred_to(context, row)


def check_not_referred_to(context: RequestContext, row: Version) -> None:
    """Raises 409 if another resource refers to this one."""
    referring = first_referring(context, row)
    if referring is None:
        return
    references = index(referring.resource, context.registry)["reference"]
    path = next(reference.path for reference in references if without_version(reference.reference) == row.reference)
    raise FhirError(
        409,
        f"Unable to delete {row.reference} because at least one resource has a reference to this resource."
        f" First reference found was resource {referring.reference} in path {path}",
    )


def first_referring(context: RequestContext, row: Version) -> Version | None:
    """The first other resource, in insertion order, that refers to this one; None if there is none."""
    numbers = context.registry.references
    sql = f"SELECT row_id FROM links WHERE param IN ({placeholders(numbers)}) AND target = ? ORDER BY row_id LIMIT 2"
    others = [row_id for (row_id,) in context.store.query(sql, (*numbers, row.reference)) if row_id != row.row_id]
    return next(iter(context.store.rows(others)), None)
