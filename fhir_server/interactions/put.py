"""Putting a version of a resource into the store: meta, text, index rows, and the check of its references."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from fhir_server.errors import FhirError
from fhir_server.interactions.context import Exchange
from fhir_server.marks import instant
from fhir_server.resources.normalise import Resource
from fhir_server.resources.references import check_targets, target
from fhir_server.search.index_rows import ReferenceRow
from fhir_server.search.indexer import index as search_index
from fhir_server.search.parameters import resource_types
from fhir_server.store import Row
from fhir_server.store.rows import Tables, table_rows
from fhir_server.wire.jsontext import Json, decode, render


@dataclass(frozen=True, slots=True)
class Written:
    """What a write did; `shown` is the text to answer with where it is not the stored one.

    `references` are those of a new version, for who has to check them.
    """

    row: Row
    change: Literal["created", "updated", "same"]
    shown: str | None = None
    references: Sequence[ReferenceRow] = ()


def put(
    exchange: Exchange, resource: Resource, old: Row | None, resource_id: str | None = None, pid: int | None = None
) -> Written:
    """Stores a normalised resource as the next version of `old`, or as a new one.

    A new one gets the number `pid` or the next one, and the id given or its number as id. Inside a Bundle the
    references are checked at its end (see `check_references`), else here. Call inside a transaction.

    Raises:
        FhirError: a reference cannot be resolved, or is to a type that its element does not allow.
    """
    store, params = exchange.store, exchange.hospital.params
    if old is not None and old.text is not None:
        unchanged = _unchanged(resource, old)
        if unchanged is not None:
            return Written(old, "same", unchanged)
    version = 1 if old is None else old.version + 1
    before = decode(old.text) if old is not None and old.text is not None else {}
    full = with_meta(resource, version, exchange, before)
    check_targets(full)
    index = search_index(full)
    if not exchange.hospital.reference_check:
        index.references = [row for row in index.references if _leads_somewhere(exchange, row.reference)]
    elif not exchange.in_transaction:
        check_references(exchange, index.references)
    if old is not None:
        pid = old.pid
    elif pid is None:
        pid = store.next_pid()
    full["id"] = resource_id or str(pid)
    kind = str(resource["resourceType"])
    row = Row(pid, kind, full["id"], version, exchange.now, render(full))
    if old is None:
        store.insert(row, table_rows(kind, index, params, pid))
        return Written(row, "created", references=index.references)
    store.replace(old, stored_rows(exchange, old), row, table_rows(kind, index, params, pid))
    return Written(row, "created" if old.text is None else "updated", references=index.references)


def stored_rows(exchange: Exchange, row: Row) -> Tables:
    """The index rows that a stored version has."""
    if row.text is None:
        return {}
    return table_rows(row.type, search_index(decode(row.text)), exchange.hospital.params, row.pid)


def with_meta(resource: Resource, version: int, exchange: Exchange, before: Resource) -> Resource:
    """The resource with room for its id, and a meta that says version, time and request.

    Tags and security labels of the version before stay, as HAPI keeps them.
    """
    given = resource.get("meta") or {}
    earlier = before.get("meta") or {}
    meta = {key: value for key, value in given.items() if key in ("id", "extension")}
    meta |= {"versionId": str(version), "lastUpdated": instant(exchange.now)}
    meta["source"] = f"{str(given.get('source', '')).partition('#')[0]}#{exchange.request_id}"
    meta |= labels(given, earlier)
    body = {key: value for key, value in resource.items() if key not in ("resourceType", "id", "meta")}
    return {"resourceType": resource["resourceType"], "id": "", "meta": meta, **body}


def labels(given: Resource, earlier: Resource) -> Resource:
    """The profiles, security labels and tags of a meta, the last two with those of an `earlier` one. HAPI keeps sets of
    them: of several with the same system and code the first counts.
    """
    found: Resource = {}
    if "profile" in given:
        found["profile"] = list(dict.fromkeys(given["profile"]))
    for name in ("security", "tag"):
        kept: dict[tuple[Json, Json], Json] = {}
        for item in (*earlier.get(name, []), *given.get(name, [])):
            kept.setdefault((item.get("system"), item.get("code")), item)
        if kept:
            found[name] = list(kept.values())
    return found


def _unchanged(resource: Resource, old: Row) -> str | None:
    """What HAPI answers if an update changes nothing: the version at hand, with the source that came; else None."""
    assert old.text is not None
    stored = decode(old.text)
    meta = stored["meta"]
    now = {**resource, "id": old.id}
    then = dict(stored)
    kept = {key: value for key, value in (now.pop("meta", None) or {}).items() if key in ("profile", "security", "tag")}
    had = {key: value for key, value in (then.pop("meta", None) or {}).items() if key in ("profile", "security", "tag")}
    new_tags = any(item not in had.get(key, []) for key, items in kept.items() for item in items)
    if render(now) != render({**then, "id": old.id}) or new_tags or kept.get("profile") != had.get("profile"):
        return None
    source = (resource.get("meta") or {}).get("source")
    shown = {key: source if key == "source" else value for key, value in meta.items() if key != "source" or source}
    return render({**stored, "meta": shown})


def _leads_somewhere(exchange: Exchange, reference: str) -> bool:
    """Whether HAPI indexes a reference that it does not check: to what is here by now, or to another server."""
    kind, resource_id = target(reference)
    if "://" in reference:
        return kind in resource_types()
    if f"{kind}/{resource_id}" in exchange.announced:
        return True
    found = exchange.store.find(kind, resource_id)
    return found is not None and found.text is not None


def check_references(exchange: Exchange, references: Sequence[ReferenceRow]) -> None:
    """Raises HAPI's errors for references that are indexed and cannot be resolved here."""
    for _, path, reference in references:
        if reference.startswith(("#", "urn:", "cid:")):
            continue
        if "://" in reference:
            raise FhirError(
                400,
                f'HAPI-0507: Resource contains external reference to URL "{reference}"'
                " but this server is not configured to allow external references",
            )
        kind, slash, rest = reference.partition("/")
        resource_id = rest.partition("/")[0]
        if not slash or not resource_id:
            raise FhirError(
                400,
                f"HAPI-0505: Invalid resource reference found at path[{path}]"
                f" - Does not contain resource type - {reference}",
            )
        if kind not in resource_types():
            raise FhirError(
                422,
                f"HAPI-0931: Invalid reference found at path '{path}'."
                f" Resource type '{kind}' is not valid for this path",
            )
        found = exchange.store.find(kind, resource_id)
        if found is None:
            raise FhirError(400, f"HAPI-1094: Resource {kind}/{resource_id} not found, specified in path: {path}")
        if found.text is None:
            raise FhirError(400, f"HAPI-1096: Resource {kind}/{resource_id} is deleted, specified in path: {path}")
