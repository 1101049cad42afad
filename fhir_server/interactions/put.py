"""Stores a version of a resource: its meta, text and index rows, and the check of its references."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from fhir_server.clock import instant
from fhir_server.errors import FhirError
from fhir_server.interactions import subscriptions
from fhir_server.interactions.context import RequestContext
from fhir_server.interactions.integrity import check_references, leads_somewhere
from fhir_server.resources.meta import labels
from fhir_server.resources.normalise import Resource, normalise
from fhir_server.resources.references import check_targets
from fhir_server.search import names, own_parameters
from fhir_server.search.index_rows import ReferenceRow
from fhir_server.search.indexer import TableRows, table_rows
from fhir_server.search.indexer import index as search_index
from fhir_server.store import Version
from fhir_server.store.own_parameters import put_in_force
from fhir_server.wire.json_text import decode, render


@dataclass(frozen=True, slots=True)
class Written:
    """The result of a write. `shown` is the text for the response, if it differs from the stored one.

    `references` are the references of a new version, which the caller must check.
    """

    row: Version
    change: Literal["created", "updated", "same"]
    shown: str | None = None
    references: Sequence[ReferenceRow] = ()


def put(
    context: RequestContext,
    resource: Resource,
    old: Version | None,
    resource_id: str | None = None,
    row_id: int | None = None,
) -> Written:
    """Stores a normalised resource as the next version of `old`, or as a new resource.

    A new resource gets the number `row_id`, or the next number. Its id is `resource_id`, or its number. In a Bundle,
    references are checked at the end (see `check_references`), otherwise here. Call inside a transaction.

    Raises:
        FhirError: a reference cannot be resolved, or its element does not allow the type of the target.
    """
    store, registry = context.store, context.registry
    if store.meter is not None:
        store.meter.check()
    if old is not None and old.text is not None:
        unchanged = _unchanged(resource, old)
        if unchanged is not None:
            return Written(old, "same", unchanged)
    if resource["resourceType"] == "Subscription":
        resource = subscriptions.checked(context.server, resource)
    version = 1 if old is None else old.version + 1
    before = decode(old.text) if old is not None and old.text is not None else {}
    full = with_meta(resource, version, context, before)
    _check_storable(context, full, old)
    if "contained" in full:
        full["contained"] = [_with_id(context, inner) for inner in full["contained"]]
    check_targets(full)
    index = search_index(full, registry)
    if old is not None and old.text is None and index["reference"]:
        # HAPI saves a deleted resource a second time after it has resolved the references.
        version += 1
        full["meta"]["versionId"] = str(version)
    if not context.server.reference_check:
        index["reference"] = [row for row in index["reference"] if leads_somewhere(context, row.reference)]
    elif not context.in_transaction:
        check_references(context, index["reference"])
    if old is not None:
        row_id = old.row_id
    elif row_id is None:
        row_id = store.next_row_id()
    full["id"] = resource_id or str(row_id)
    kind = str(resource["resourceType"])
    text = render(full)
    shown = None
    if "{ }" in text:  # HAPI returns empty elements in the response to the write, but not later
        shown, text = text, render(normalise(full, expected_type=kind))
    row = Version(row_id, kind, full["id"], version, context.now, text)
    if old is None:
        store.insert(row, table_rows(kind, index, registry, row_id))
    else:
        store.replace(old, stored_rows(context, old), row, table_rows(kind, index, registry, row_id))
    if kind == "SearchParameter":
        put_in_force(store, {str(one.get("code")) for one in (full, before)})
    if old is None:
        return Written(row, "created", shown, index["reference"])
    return Written(row, "created" if old.text is None else "updated", shown, index["reference"])


_STORABLE = ("collection", "document", "message")
_UNIQUE = {"ValueSet": "0902", "CodeSystem": "0848", "ConceptMap": "0840"}
_NAMED = ("ValueSet", "ConceptMap")


def _check_storable(context: RequestContext, resource: Resource, old: Version | None) -> None:
    """Raises HAPI's 422 for a Bundle of another type, and for definitions with a missing or duplicate URL."""
    kind, url = resource["resourceType"], resource.get("url")
    if kind == "Bundle" and resource.get("type") not in _STORABLE:
        raise FhirError(
            422,
            "HAPI-0522: Unable to store a Bundle resource on this server with a Bundle.type value of:"
            f" {resource.get('type', '(missing)')}. Note that if you are trying to perform a FHIR transaction or batch"
            " operation you should POST the Bundle resource to the Base URL of the server, not to the /Bundle"
            " endpoint.",
        )
    if kind == "SearchParameter":
        own_parameters.check(resource)
    if kind not in _UNIQUE:
        return
    if url is None and kind in _NAMED:
        raise FhirError(422, f"HAPI-1766: {kind} has no value for {kind}.url")
    sql = "SELECT row_id FROM uris WHERE param = ? AND value = ?"
    values = context.registry.number(kind, "url"), names.number(url or "")
    numbers = [row[0] for row in context.store.query(sql, values)]
    for other in context.store.rows(numbers):
        same = decode(other.text or "{}").get("version") == resource.get("version")
        if same and (old is None or other.row_id != old.row_id):
            version = f' and {kind}.version "{resource["version"]}"' if "version" in resource else ""
            problem = f'Can not create multiple {kind} resources with {kind}.url "{url}"{version}'
            raise FhirError(
                422, f"HAPI-{_UNIQUE[kind]}: {problem}, already have one with resource ID: {other.reference}"
            )


def _with_id(context: RequestContext, contained: Resource) -> Resource:
    """A contained resource, with a random id if it has none."""
    if "id" in contained:
        return contained
    return {"resourceType": contained["resourceType"], "id": context.server.ids.uuid(), **contained}


def stored_rows(context: RequestContext, row: Version) -> TableRows:
    """The index rows of a stored version."""
    if row.text is None:
        return {}
    return table_rows(row.type, search_index(decode(row.text), context.registry), context.registry, row.row_id)


def with_meta(resource: Resource, version: int, context: RequestContext, before: Resource) -> Resource:
    """The resource with an empty id, and with version, time and request id in its meta.

    Like in HAPI, tags and security labels of the previous version remain.
    """
    sent, earlier = resource.get("meta") or {}, before.get("meta") or {}
    meta = {key: value for key, value in sent.items() if key in ("id", "extension")}
    meta |= {"versionId": str(version), "lastUpdated": instant(context.now)}
    meta["source"] = f"{str(sent.get('source', '')).partition('#')[0]}#{context.request_id}"
    own = {"id": "", "meta": meta | labels(sent, earlier)}
    return {"resourceType": resource["resourceType"], **own, **resource, **own}


def _unchanged(resource: Resource, old: Version) -> str | None:
    """HAPI's response if an update changes nothing: the current version with the new source. Otherwise None."""
    assert old.text is not None
    stored = decode(old.text)
    meta = stored["meta"]
    now = {"resourceType": resource["resourceType"], "id": "", **resource} | {"id": old.id}
    then = dict(stored)
    new_labels, old_labels = (
        {key: value for key, value in (one.pop("meta", None) or {}).items() if key in ("profile", "security", "tag")}
        for one in (now, then)
    )
    new_tags = any(item not in old_labels.get(key, []) for key, items in new_labels.items() for item in items)
    if (
        render(now) != render({**then, "id": old.id})
        or new_tags
        or new_labels.get("profile") != old_labels.get("profile")
    ):
        return None
    source = (resource.get("meta") or {}).get("source")
    shown = {key: source if key == "source" else value for key, value in meta.items() if key != "source" or source}
    return render({**stored, "meta": shown})
