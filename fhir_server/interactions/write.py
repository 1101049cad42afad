"""Creates, updates and deletes, also conditional ones, and how they store a version: meta, text and index rows."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from fhir_server.clock import http_date, instant
from fhir_server.errors import FhirError
from fhir_server.interactions import subscriptions
from fhir_server.interactions._matching import MatchUrl, resolve, several_match
from fhir_server.interactions.context import RequestContext
from fhir_server.interactions.integrity import check_not_referred_to, check_references, leads_somewhere
from fhir_server.interactions.read import asks_for_fhir, content, expected_version, location
from fhir_server.resources.normalise import Resource, labels, normalise
from fhir_server.resources.primitives import VALID_ID
from fhir_server.resources.references import check_targets
from fhir_server.search import custom_parameters
from fhir_server.search.indexer import TableRows, table_rows
from fhir_server.search.indexer import index as search_index
from fhir_server.search.kinds.kind import ReferenceRow
from fhir_server.store import Version
from fhir_server.store.custom_parameters import put_in_force
from fhir_server.wire import outcome
from fhir_server.wire.http import Response, escape, split_target
from fhir_server.wire.json_text import parse, render
from fhir_server.wire.json_values import Json
from fhir_server.wire.outcome import Stored, stored_outcome
from fhir_server.wire.xml import parse_xml


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
        FhirError: a reference cannot be resolve, or its element does not allow the type of the target.
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
    before = _before(context, old)
    full = with_meta(resource, version, context, before)
    _check_storable(context, full, old)
    if "contained" in full:
        full["contained"] = [_with_id(context, inner) for inner in full["contained"]]
    check_targets(full)
    row_id = row_id if old is None else old.row_id
    if resource_id is not None:
        full["id"] = resource_id
    index = search_index(full, registry)
    if old is not None and old.text is None and index["reference"]:
        # HAPI saves a deleted resource a second time after it has resolved the references.
        version += 1
        full["meta"]["versionId"] = str(version)
    if not context.server.reference_check:
        index["reference"] = [row for row in index["reference"] if leads_somewhere(context, row.reference)]
    elif not context.in_transaction:
        check_references(context, index["reference"])
    if row_id is None:  # a refused write takes no number
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
        put_in_force(store, {str(version_of.get("code")) for version_of in (full, before)})
    is_new = old is None or old.text is None
    return Written(row, "created" if is_new else "updated", shown, index["reference"])


def _before(context: RequestContext, old: Version | None) -> Resource:
    """The last content before a write. Like in HAPI, a deleted resource comes back with its labels."""
    if old is not None and old.text is None:
        old = context.store.version(old.type, old.id, old.version - 1)
    return old.resource if old is not None else {}


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
        custom_parameters.check(resource)
    if kind not in _UNIQUE:
        return
    if url is None and kind in _NAMED:
        raise FhirError(422, f"HAPI-1766: {kind} has no value for {kind}.url")
    for same_url in context.store.with_url(kind, url or ""):
        same = same_url.resource.get("version") == resource.get("version")
        if same and (old is None or same_url.row_id != old.row_id):
            version = f' and {kind}.version "{resource["version"]}"' if "version" in resource else ""
            problem = f'Can not create multiple {kind} resources with {kind}.url "{url}"{version}'
            raise FhirError(
                422, f"HAPI-{_UNIQUE[kind]}: {problem}, already have one with resource ID: {same_url.reference}"
            )


def _with_id(context: RequestContext, contained: Resource) -> Resource:
    """A contained resource. A missing id becomes a random one."""
    if "id" in contained:
        return contained
    return {"resourceType": contained["resourceType"], "id": context.server.ids.uuid(), **contained}


def stored_rows(context: RequestContext, row: Version) -> TableRows:
    """The index rows of a stored version."""
    if row.text is None:
        return {}
    return table_rows(row.type, search_index(row.resource, context.registry), context.registry, row.row_id)


def with_meta(resource: Resource, version: int, context: RequestContext, before: Resource) -> Resource:
    """The resource with an empty id, and with version, time and request id in its meta.

    Like in HAPI, tags and security labels of the previous version remain.
    """
    sent, earlier = resource.get("meta") or {}, before.get("meta") or {}
    meta = {key: value for key, value in sent.items() if key in ("id", "extension")}
    meta |= {"versionId": str(version), "lastUpdated": instant(context.now)}
    meta["source"] = f"{str(sent.get('source', '')).partition('#')[0]}#{context.request_id}"
    assigned = {"id": "", "meta": meta | labels(sent, earlier)}
    return {"resourceType": resource["resourceType"], **assigned, **resource, **assigned}


def _unchanged(resource: Resource, old: Version) -> str | None:
    """HAPI's response if an update changes nothing: the current version with the new source. Otherwise None."""
    stored = old.resource
    meta = stored["meta"]
    now = {"resourceType": resource["resourceType"], "id": "", **resource} | {"id": old.id}
    then = dict(stored)
    new_labels, old_labels = (
        {
            key: value
            for key, value in (content.pop("meta", None) or {}).items()
            if key in ("profile", "security", "tag")
        }
        for content in (now, then)
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


_NO_ID = (
    "HAPI-0418: Can not update resource, request URL must contain an ID element for update (PUT) operation"
    " (it must be of the form [base]/[resource type]/[id])"
)
_NO_ID_TO_DELETE = "HAPI-0967: Can not perform delete, no ID provided"
FORM = "application/x-www-form-urlencoded"
FHIR_JSON = ("application/fhir+json", "application/json", "text/json", "application/json+fhir")
FHIR_XML = ("application/fhir+xml", "application/xml", "text/xml", "application/xml+fhir")


def create(context: RequestContext, kind: str, resource_id: str = "") -> Response:
    """`POST Type`, conditional with `If-None-Exist`.

    An id in the URL is refused. Like in HAPI, errors in the body are reported first.
    """
    resource = body_resource(context, kind, "CREATE")
    if resource_id:
        raise FhirError(
            400,
            f'HAPI-0365: Can not create resource with ID "{resource_id}", ID must not be supplied on a create'
            " (POST) operation (use an HTTP PUT / update operation if you wish to supply an ID)",
        )
    condition = context.request.header("if-none-exist")
    with context.store.transaction():
        written, stored = create_resource(context, resource, condition)
    return written_response(context, written, stored)


def create_resource(
    context: RequestContext, resource: Resource, condition: str | None, row_id: int | None = None
) -> tuple[Written, Stored]:
    """Creates a resource, unless one matches the condition. The new id is `row_id` or the next number."""
    kind = str(resource["resourceType"])
    if condition:
        url = MatchUrl(context, kind, condition[condition.find("?") + 1 :], condition)
        row = url.only("CREATE")
        if row is not None:
            return Written(row, "same"), outcome.found_conditionally(versioned(row), condition)
    written = put(context, resource, None, row_id=row_id)
    reference = versioned(written.row)
    if condition:
        url.check_satisfied()
        return written, outcome.created_conditionally(reference, condition)
    return written, outcome.created(reference)


def update(context: RequestContext, kind: str, resource_id: str, version: str = "") -> Response:
    """`PUT Type/id`. The version of `PUT Type/id/_history/version` must be the current one."""
    resource = body_resource(context, kind, "UPDATE")
    if not resource_id.strip():
        raise FhirError(400, _NO_ID)
    if kind == "Binary" and not _is_fhir(context):
        resource["id"] = resource_id  # raw bytes have no id
    check_body_id(resource, resource_id)
    with context.store.transaction():
        written, stored = update_resource(context, resource, resource_id, version or context.request.header("if-match"))
    return written_response(context, written, stored, "Location")


def check_body_id(resource: Resource, resource_id: str) -> None:
    """Raises HAPI-0419 or HAPI-0420 if the body's id is not the URL's."""
    problem = "Can not update resource, resource body must contain an ID element"
    body_id = resource.get("id")
    if body_id is None:
        raise FhirError(400, f"HAPI-0419: {problem} for update (PUT) operation")
    if body_id != resource_id:
        raise FhirError(
            400,
            f"HAPI-0420: {problem} which matches the request URL for update (PUT) operation"
            f' - Resource body ID of "{body_id}" does not match URL ID of "{resource_id}"',
        )


def update_resource(
    context: RequestContext, resource: Resource, resource_id: str, if_match: str | None
) -> tuple[Written, Stored]:
    """Creates a new version, or the first version with an id that the client chose."""
    kind = str(resource["resourceType"])
    row = context.store.find(kind, resource_id)
    if row is None:
        if not VALID_ID.fullmatch(resource_id):
            raise FhirError(
                400, f"HAPI-0521: Can not process entity with ID[{resource_id}], this is not a valid FHIR ID"
            )
        if resource_id.isdigit():
            raise FhirError(
                400,
                f"HAPI-0960: Can not create resource with ID[{resource_id}], no resource with this ID exists"
                " and clients may only assign IDs which contain at least one non-numeric character",
            )
    check_version(row, if_match)
    written = put(context, resource, row, resource_id)
    reference = versioned(written.row)
    if written.change == "created":
        return written, outcome.created_by_update(reference)
    return written, outcome.unchanged(reference) if written.change == "same" else outcome.updated(reference)


def check_version(row: Version | None, if_match: str | None) -> None:
    """Raises HAPI-0989 if `If-Match` is not the current version."""
    expected = expected_version(if_match)
    if row is not None and expected and expected != str(row.version):
        raise FhirError(
            409,
            f"HAPI-0550: HAPI-0989: Trying to update {row.reference}/_history/{expected}"
            " but this is not the current version",
        )


def update_by_condition(context: RequestContext, kind: str) -> Response:
    """`PUT Type?…`: updates the only match, or creates a resource if nothing matches."""
    resource = body_resource(context, kind, "UPDATE")
    _, mark, query = context.request.target.partition("?")
    if not mark:
        raise FhirError(400, _NO_ID)
    with context.store.transaction():
        written, stored = conditional_update(context, resource, query, f"{kind}?{query}")
    return written_response(context, written, stored, "Location")


def conditional_update(
    context: RequestContext, resource: Resource, query: str, shown: str, row_id: int | None = None
) -> tuple[Written, Stored]:
    """Updates the one resource that matches a condition, or creates one. Messages repeat the condition as `shown`."""
    kind = str(resource["resourceType"])
    url = MatchUrl(context, kind, query, shown)
    row = url.only("UPDATE")
    if row is not None:
        written = put(context, {**resource, "id": row.id}, row, row.id)
        report = outcome.unchanged_conditionally if written.change == "same" else outcome.updated_conditionally
        return written, report(versioned(written.row), shown)
    chosen = own_id(context, resource)
    if chosen:
        written, _ = update_resource(context, resource, chosen, None)
    else:
        written = put(context, resource, None, row_id=row_id)
    url.check_satisfied()
    return written, outcome.created_by_conditional_update(versioned(written.row), shown)


def own_id(context: RequestContext, resource: Resource) -> str | None:
    """The id in the body, if a conditional update that creates the resource uses it: only in a Bundle."""
    body_id = str(resource.get("id", ""))
    usable = context.in_transaction and VALID_ID.fullmatch(body_id) and not body_id.isdigit()
    return body_id if usable else None


def body_resource(context: RequestContext, kind: str, operation: str) -> Resource:
    """The normalised resource in the body, with conditional references replaced. Raises HAPI's errors."""
    if kind == "Binary" and not _is_fhir(context):
        data = base64.b64encode(context.request.body).decode()
        binary = {"resourceType": kind, "contentType": _media_type(context), "data": data}
        return normalise(binary, expected_type=kind)
    return read_resource(context, kind, body_json(context, operation))


def read_resource(context: RequestContext, kind: str, body: Json) -> Resource:
    """The normalised resource of a parsed body, with conditional references replaced."""
    try:
        resource = normalise(body, expected_type=kind)
    except FhirError as error:
        if _media_type(context) in FHIR_XML:
            error.diagnostics = error.diagnostics.replace("as JSON resource", "as XML resource", 1)
        raise
    if b"?" in context.request.body and kind != "Bundle":
        resolve(context, resource)
    return resource


def _media_type(context: RequestContext) -> str:
    return (context.request.header("content-type") or "").partition(";")[0].strip().lower()


def _is_fhir(context: RequestContext) -> bool:
    """Whether the body's content type is FHIR, a form or missing. A body of another type is the data of a Binary."""
    return _media_type(context) in ("", *FHIR_JSON, *FHIR_XML, FORM)


_NO_BODY = {"CREATE": "HAPI-0956", "UPDATE": "HAPI-0986"}


def body_json(context: RequestContext, operation: str) -> Json:
    """The body as JSON. A body in XML is converted."""
    content_type = context.request.header("content-type")
    if content_type is None and not context.request.body and operation in _NO_BODY:
        raise FhirError(400, f"{_NO_BODY[operation]}: No body was supplied in request")
    if content_type is None:
        raise FhirError(
            400,
            "HAPI-0448: No Content-Type header was provided in the request."
            f' This is required for "{operation}" operation',
        )
    kind, _, parameters = content_type.partition(";")
    name = kind.strip().lower()
    latin = "latin1" in parameters.lower() or "8859-1" in parameters
    try:
        text = context.request.body.decode()  # like HAPI, whatever charset the header names
    except UnicodeDecodeError:
        text = context.request.body.decode("latin-1" if latin else "utf-8", "replace")
    if name in FHIR_XML:
        return parse_xml(text)
    if name not in FHIR_JSON:
        number = "0446" if name == FORM else "0449"
        raise FhirError(
            400,
            f'HAPI-{number}: Incorrect Content-Type header value of "{content_type}" was provided in the request.'
            f' A FHIR Content-Type is required for "{operation}" operation',
        )
    return parse(text)


def written_response(context: RequestContext, written: Written, stored: Stored, without: str = "") -> Response:
    """The response to a write, in the form of `Prefer`. As in HAPI, some lack the headers in the text `without`."""
    row = written.row
    address = location(context.base, row)
    named = {"ETag": f'W/"{row.version}"', "Content-Location": address}
    named |= {"Last-Modified": http_date(row.updated // 1000), "Location": address}
    headers = [header for header in named.items() if header[0] not in without.split()]
    status = 201 if written.change == "created" else 200
    preferred = preference(context)
    if preferred == "minimal":
        return Response(status, [("X-Request-ID", context.request_id), *headers])
    if preferred == "OperationOutcome":
        return context.respond(status, stored_outcome(stored), headers)
    assert row.text is not None
    if row.type == "Binary" and not _is_fhir(context) and not asks_for_fhir(context):
        return content(context, status, row.text, headers)  # a client that sent bytes gets bytes
    return context.respond(status, written.shown or row.text, headers)


def preference(context: RequestContext) -> str:
    """The value of `Prefer: return=…`; `representation` by default."""
    header = context.request.header("prefer")
    for part in re.split(r"[;,\s]+", header) if header else ():
        if part.startswith("return="):
            return part.removeprefix("return=")
    return "representation"


def versioned(row: Version) -> str:
    """The reference to a version, such as `Patient/1/_history/2`."""
    return f"{row.reference}/_history/{row.version}"


def delete(context: RequestContext, kind: str, resource_id: str) -> Response:
    """`DELETE Type/id`."""
    if not resource_id.strip():
        raise FhirError(400, _NO_ID_TO_DELETE)
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
        raise FhirError(400, _NO_ID_TO_DELETE)
    with context.store.transaction():
        stored = delete_matches(context, kind, query)
    return context.respond(200, stored_outcome(stored))


def delete_matches(context: RequestContext, kind: str, query: str) -> Stored:
    """Deletes the one resource that matches a condition. Unlike HAPI, deletes none without search parameters."""
    shown = f"{kind}?{query or 'null'}"
    url = MatchUrl(context, kind, query)
    matches = url.numbers(-1)
    if len(matches) > 1:
        raise several_match("DELETE", kind, shown, len(matches))
    if not matches:
        return outcome.nothing_matched(shown)
    url.check_selective()
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
        put_in_force(context.store, {str(row.resource.get("code"))})
    return gone
