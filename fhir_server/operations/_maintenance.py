"""Operations on the whole server: `$get-resource-counts`, `$expunge` and `$reindex`."""

from __future__ import annotations

from fhir_server.errors import FhirError
from fhir_server.interactions.context import RequestContext
from fhir_server.operations._parameters import Arguments, answer
from fhir_server.search.query import whole
from fhir_server.store import Store
from fhir_server.store.custom_parameters import put_in_force
from fhir_server.wire.http import Response

DEFAULT_LIMIT = 1000


def resource_counts(context: RequestContext, kind: str, resource_id: str) -> Response:
    """Answers the number of resources of each type."""
    counts = context.store.count().items()
    return answer(context, ({"name": name, "valueInteger": count} for name, count in counts))


def expunge(context: RequestContext, kind: str, resource_id: str) -> Response:
    """Removes deleted resources, earlier versions, or both, as the parameters say, up to `limit`; answers the number.

    Raises:
        FhirError: `expungeEverything` is set, which this server does not support, or the resource is unknown.
    """
    arguments = Arguments(context)
    if arguments.text("expungeEverything") == "true":
        raise FhirError(400, "This server does not delete everything at once: stop it and remove its file instead")
    limit = whole("limit", arguments.text("limit"))
    limit = DEFAULT_LIMIT if limit is None else limit
    if limit < 1:
        raise FhirError(400, f"HAPI-1087: Expunge limit may not be less than 1.  Received expunge limit {limit}.")
    targets = {name: arguments.text(f"expunge{name}") == "true" for name in ("DeletedResources", "PreviousVersions")}
    where = " AND ".join(["1", *(["type = :kind"] if kind else []), *(["id = :id"] if resource_id else [])])
    values = {"kind": kind, "id": resource_id, "limit": limit}
    with context.store.transaction():
        count = _forget_deleted(context.store, where, values) if targets["DeletedResources"] else 0
        if targets["PreviousVersions"]:
            count += _forget_versions(context.store, where, values | {"limit": limit - count})
    return answer(context, [{"name": "count", "valueInteger": count}])


def _forget_deleted(store: Store, where: str, values: dict[str, object]) -> int:
    """Removes deleted resources with all their versions; returns the number of resources."""
    gone = f"SELECT row_id FROM {store.prefix}resources WHERE text IS NULL AND {where} LIMIT :limit"
    row_ids = [row_id for (row_id,) in store.connection.execute(gone, values)]
    for row_id in row_ids:
        for table in ("resources", "versions"):
            store.connection.execute(f"DELETE FROM {store.prefix}{table} WHERE row_id = ?", (row_id,))
    return len(row_ids)


def _forget_versions(store: Store, where: str, values: dict[str, object]) -> int:
    """Removes versions that are not current; returns their number."""
    old = f"SELECT row_id, version FROM {store.prefix}versions WHERE {where} LIMIT :limit"
    rows = store.connection.execute(old, values).fetchall()
    sql = f"DELETE FROM {store.prefix}versions WHERE row_id = ? AND version = ?"
    store.connection.executemany(sql, rows)
    return len(rows)


def reindex(context: RequestContext, kind: str, resource_id: str) -> Response:
    """Puts SearchParameters into force that an earlier version of this server stored. Otherwise there is nothing to do,
    because each write updates the indexes.
    """
    with context.store.transaction():
        put_in_force(context.store)
    return answer(context, [{"name": "jobId", "valueString": context.server.ids.uuid()}])


def mark_for_reindexing(context: RequestContext, kind: str, resource_id: str) -> Response:
    """Answers `$mark-all-resources-for-reindexing`, the older name of `$reindex`."""
    reindex(context, kind, resource_id)
    return answer(context, [{"name": "status", "valueString": "Marked resources"}])
