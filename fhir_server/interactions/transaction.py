"""`POST` to the base: batch and transaction Bundles.

A transaction runs its entries in HAPI's order: deletes, creates (conditional ones last), updates, patches, reads.
Before that, references between entries and conditional references are replaced. The Bundle is one transaction of the
store. As in HAPI, the id of a failed write is not used again.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from http import HTTPStatus
from urllib.parse import urlsplit

from fhir_server.clock import instant
from fhir_server.errors import FhirError
from fhir_server.interactions import patch, write
from fhir_server.interactions._matching import MatchUrl, is_placeholder, resolved, source
from fhir_server.interactions.context import RequestContext, check_type
from fhir_server.interactions.integrity import check_deleted, check_references
from fhir_server.interactions.read import not_known
from fhir_server.interactions.write import Written
from fhir_server.resources.normalise import Resource
from fhir_server.search.kinds.kind import ReferenceRow
from fhir_server.search.parameters import resource_types
from fhir_server.wire.bundle import Bundle, entry, joined, members
from fhir_server.wire.http import Request, Response, parse_query, path_segments, split_target
from fhir_server.wire.json_text import render
from fhir_server.wire.json_values import Json
from fhir_server.wire.outcome import (
    Stored,
    created_by_conditional_update_in_bundle,
    error_outcome,
    quoted,
    stored_outcome,
    untimed,
)

ORDER = {"DELETE": 1, "POST": 2, "PUT": 3, "PATCH": 4, "GET": 5, "HEAD": 5}


@dataclass(slots=True)
class Entry:
    """An entry of a request Bundle. `kind`, `id` and `query` are from its URL. A POST has its resource's `kind`."""

    number: int
    method: str
    url: str
    full_url: str
    resource: Resource | None
    condition: str | None
    if_match: str | None
    if_none_match: str | None
    kind: str = ""
    id: str = ""
    query: str = ""
    rest: tuple[str, ...] = ()
    """The path after the id in the URL."""
    row_id: int | None = None

    @property
    def source(self) -> str:
        """The key for references of other entries: a placeholder, otherwise `Type/id`, otherwise the `fullUrl`."""
        if self.resource is None:
            return ""
        own_id = self.resource.get("id")
        if is_placeholder(self.full_url) or own_id is None:
            return source(self.full_url)
        return f"{self.resource['resourceType']}/{own_id}"


Fields = list[tuple[str, str]]
Dispatch = Callable[[RequestContext], Response]
"""Answers a read in a Bundle as a separate request."""


def transaction(context: RequestContext, dispatch: Dispatch) -> Response:
    """Answers a batch or transaction Bundle."""
    kind, entries = _read_bundle(context)
    context.in_transaction = True
    meter = context.store.meter
    if meter is not None:
        meter.begin_bundle(len(entries))
    with context.store.transaction():
        if kind == "batch":
            # Reads come after writes and see them.
            done = {
                one.number: _alone(context, one, dispatch)
                for one in sorted(entries, key=lambda one: one.method == "GET")
            }
            texts = [done[one.number] for one in entries]
        else:
            texts = _together(context, entries, dispatch)
    answer = Bundle(
        context.server.ids.uuid(),
        f"{kind or 'transaction'}-response",
        links=[("self", context.base)],
        entries=joined(texts),
    )
    address = f"{context.base}/Bundle/{answer.id}"
    return context.respond(200, answer.render(), [("Content-Location", address), ("Location", address)])


def _read_bundle(context: RequestContext) -> tuple[str | None, list[Entry]]:
    """The type and the entries of the Bundle in the body."""
    body = write.body_json(context, "TRANSACTION")
    bundle = write.read_resource(context, "Bundle", body)
    kind = bundle.get("type")
    if kind not in ("batch", "transaction", None):
        raise FhirError(400, f"HAPI-0527: Unable to process transaction where incoming Bundle.type = {kind}")
    _check_verbs(body)
    return kind, [_entry(number, item) for number, item in enumerate(bundle.get("entry", []))]


def _check_verbs(body: Json) -> None:
    """Refuses entries without a method. It reads the original body, since normalising drops empty entries."""
    listed = body.get("entry", [])
    for number, item in enumerate(listed if isinstance(listed, list) else [listed]):
        request = item.get("request") if isinstance(item, dict) else None
        if not isinstance(request, dict) or not request.get("method"):
            raise FhirError(
                400,
                "HAPI-0529: Transaction bundle entry has missing or invalid HTTP Verb specified in"
                f' Bundle.entry({number}).request.method. Found value: "null"',
            )


def _entry(number: int, item: Json) -> Entry:
    request = item["request"]
    method = request["method"]
    parsed = Entry(
        number,
        method,
        request.get("url", ""),
        item.get("fullUrl", ""),
        item.get("resource"),
        request.get("ifNoneExist"),
        request.get("ifMatch"),
        request.get("ifNoneMatch"),
    )
    path, parsed.query = split_target(parsed.url)
    segments = path_segments(path)
    parsed.kind = segments[0] if segments else ""
    parsed.id = segments[1] if len(segments) > 1 else ""
    parsed.rest = segments[2:]
    return parsed


def _check_entry(one: Entry) -> None:
    """Refuses an invalid entry before any entry is run. For a POST, sets `kind` to the type of the resource."""
    if one.method == "HEAD":
        raise FhirError(400, "HAPI-0538: Unable to handle verb in transaction: HEAD")
    if one.method == "POST" and one.url and one.kind not in resource_types():
        raise FhirError(400, f"HAPI-2006: Unable to perform POST, URL provided is invalid: {one.url}")
    if one.method in ("POST", "PUT", "PATCH") and one.resource is None:
        problem = f"Missing required resource in Bundle.entry[{one.number}].resource for operation {one.method}"
        raise FhirError(400, f"HAPI-0543: {problem}")
    if not one.url and one.method != "POST":
        raise FhirError(400, f"HAPI-0545: Unable to perform {one.method}, no URL provided.")
    if one.method in ("PUT", "PATCH", "DELETE"):
        if one.kind not in resource_types():
            raise FhirError(400, f"HAPI-2006: Unable to perform {one.method}, URL provided is invalid: {one.url}")
        if one.rest and one.rest[0] != "_history":
            raise FhirError(400, f"HAPI-1742: Invalid FHIR resource URL: {one.url}")
        if one.method in ("PUT", "PATCH") and not one.id and not one.query:
            shown = f"{one.kind}?{one.kind}"
            raise FhirError(400, f"HAPI-0518: Invalid match URL[{shown}] - URL has no search parameters")
    if one.method == "POST" and one.resource is not None:
        one.kind, one.id, one.query = str(one.resource["resourceType"]), "", ""


def _alone(context: RequestContext, one: Entry, dispatch: Dispatch) -> str:
    """The response to an entry of a batch, which may be an error."""
    try:
        with context.store.transaction():
            return _together(context, [one], dispatch)[0]
    except FhirError as error:
        return entry(_failed(error))


def _failed(error: FhirError) -> Fields:
    outcome = ("outcome", error_outcome(error, "exception"))
    return [("response", members([("status", quoted(_status(error.status))), outcome]))]


def _together(context: RequestContext, entries: list[Entry], dispatch: Dispatch) -> list[str]:
    """Runs entries in HAPI's order. The responses are in the order of the Bundle."""
    context.deleted.clear()
    for one in entries:
        _check_entry(one)
    _check_twice(entries)
    order = sorted(entries, key=lambda one: (ORDER[one.method], one.condition or (one.query and one.url) or ""))
    known = _announce(context, order)
    context.announced = {f"{one.kind}/{one.id or one.row_id}" for one in order if one.method in ("POST", "PUT")}
    context.announced.update(known.values())
    for one in order:
        if one.resource is not None:
            one.resource = resolved(context, one.resource, known)
    texts: dict[int, str] = {}
    references: list[ReferenceRow] = []
    for one in order:
        written: Written | None = None
        if one.method == "GET":
            _check(context, references)
            texts[one.number] = entry(_read(context, one, dispatch))
        else:
            fields, written = _run(context, one)
            texts[one.number] = entry(fields)
        if context.store.meter is not None:
            context.store.meter.entered(len(texts[one.number]))
        if written is not None:
            references += written.references
    _check(context, references)
    check_deleted(context)
    return [texts[one.number] for one in entries if one.number in texts]


def _check(context: RequestContext, references: list[ReferenceRow]) -> None:
    if context.server.reference_check:
        check_references(context, references)
    references.clear()


def _check_twice(entries: list[Entry]) -> None:
    seen: set[str] = set()
    for one in entries:
        name = f"{one.kind}/{one.id}" if one.method == "PUT" and one.id else one.source if one.method != "PATCH" else ""
        if name in seen:
            code = "0534" if is_placeholder(name) else "0535"
            raise FhirError(400, f"HAPI-{code}: Transaction bundle contains multiple resources with ID: {name}")
        if name:
            seen.add(name)


def _announce(context: RequestContext, order: list[Entry]) -> dict[str, str]:
    """Assigns numbers to new resources before the first write. Returns the new reference of each entry by `source`.

    Removes from `order` the entries with a `fullUrl` that repeat the method and condition of an earlier entry.
    """
    known: dict[str, str] = {}
    conditions: set[tuple[str, str]] = set()
    for one in order.copy():
        if one.method not in ("POST", "PUT"):
            continue
        resource = one.resource or {}
        kind = resource["resourceType"]
        if kind != one.kind:
            raise FhirError(400, f"HAPI-0996: Incorrect resource type ({one.kind}) for this DAO, wanted: {kind}")
        if one.method == "PUT" and one.id:
            known[one.source] = f"{one.kind}/{one.id}"
            continue
        query = (one.condition or "").rpartition("?")[2] if one.method == "POST" else one.query
        condition = f"{one.kind}?{query}"
        if one.full_url and (one.method, condition) in conditions:
            order.remove(one)
        if condition in known:
            known[one.source] = known[condition]
            continue
        matches = MatchUrl(context, one.kind, query).numbers() if query else []
        own_id = write.own_id(context, resource) if one.method == "PUT" else None
        if matches:
            reference = context.store.rows(matches)[0].reference
        elif own_id:
            reference = f"{one.kind}/{own_id}"
        else:
            one.row_id = context.store.next_row_id()
            reference = f"{one.kind}/{one.row_id}"
        known[one.source] = reference
        if query:
            known[condition] = reference
            conditions.add((one.method, condition))
    known.pop("", None)
    return known


def _run(context: RequestContext, one: Entry) -> tuple[Fields, Written | None]:
    """Runs an entry. Returns the fields of its response, and the result of its write."""
    match one.method:
        case "DELETE":
            return _delete(context, one), None
        case "POST" | "PUT":
            assert one.resource is not None
            written, stored = _write(context, one, one.resource)
            return _written(context, written, stored), written
    return _patch(context, one)


def _write(context: RequestContext, one: Entry, resource: Resource) -> tuple[Written, Stored]:
    if one.method == "POST":
        return write.create_resource(context, resource, one.condition, one.row_id)
    if one.id:
        written, stored = write.update_resource(context, resource | {"id": one.id}, one.id, one.if_match)
        return written, stored if written.change == "created" else untimed(stored)
    written, stored = write.conditional_update(context, resource, one.query, one.url, one.row_id)
    if written.change == "created":
        return written, created_by_conditional_update_in_bundle(write.versioned(written.row))
    return written, stored


def _written(context: RequestContext, written: Written, stored: Stored) -> Fields:
    row = written.row
    shows_resource = "return=representation" in (context.request.header("prefer") or "")
    shown: Fields = [("resource", written.shown or row.text)] if shows_resource and row.text is not None else []
    fields = [
        ("status", quoted("201 Created" if written.change == "created" else "200 OK")),
        ("location", quoted(write.versioned(row))),
        ("etag", quoted(str(row.version))),
    ]
    if written.change == "created":
        fields.append(("lastModified", quoted(instant(row.updated))))
    return [*shown, ("response", members([*fields, ("outcome", stored_outcome(stored))]))]


def _delete(context: RequestContext, one: Entry) -> Fields:
    fields = [("status", quoted("204 No Content"))]
    if one.id:
        row, stored = write.delete_resource(context, one.kind, one.id)
        if row is not None:
            fields += [("location", quoted(write.versioned(row))), ("etag", quoted(str(row.version)))]
    else:
        stored = write.delete_matches(context, one.kind, one.query)
    return [("response", members([*fields, ("outcome", stored_outcome(stored))]))]


def _patch(context: RequestContext, one: Entry) -> tuple[Fields, Written | None]:
    resource = one.resource or {}
    if resource.get("resourceType") not in ("Binary", "Parameters"):
        raise FhirError(400, "HAPI-0537: Unable to determine PATCH body from request")
    row = context.store.find(one.kind, one.id) if one.id else patch.only_match(context, one.kind, one.query)
    if row is None or row.text is None:
        raise not_known(one.kind, one.id)
    if resource.get("resourceType") == "Binary":
        body, kind = base64.b64decode(str(resource.get("data", ""))), patch.JSON_PATCH
    else:
        body, kind = render(resource).encode(), "application/fhir+json"
    written, stored = patch.patch_resource(context, row, kind, body, "" if one.id else one.url)
    return _written(context, written, untimed(stored)), written


def _read(context: RequestContext, one: Entry, dispatch: Dispatch) -> Fields:
    """Answers a read or search in a Bundle like a separate request. An unknown URL fails the whole Bundle."""
    if one.kind[:1].isalpha() and one.kind != "metadata":
        check_type(one.kind)
    target = f"{urlsplit(context.base).path}/{one.url.lstrip('/')}"
    path, query = split_target(one.url)
    pairs = parse_query(query)
    unused = tuple([pair for pair in pairs if _is_unused(*pair)])
    inner = replace(
        context,
        request=Request("GET", target, [("If-None-Match", one.if_none_match)] if one.if_none_match else ()),
        segments=path_segments(path),
        pairs=tuple([pair for pair in pairs if pair not in unused]),
        unused=unused,
        path=f"/{path.lstrip('/')}",
        in_transaction=False,
        _layout=None,
    )
    try:
        response = dispatch(inner)
    except FhirError as error:
        if error.code == "not-supported":
            raise
        return _failed(error)
    if response.status >= 400:
        issue = json.loads(response.text)["issue"][0]
        return _failed(FhirError(response.status, issue["diagnostics"], issue["code"]))
    fields = [("resource", response.text)] if response.body else []
    return [*fields, ("response", members([("status", quoted(_status(response.status)))]))]


def _is_unused(name: str, value: str) -> bool:
    """Whether HAPI ignores a parameter of a read in a Bundle (or its response would not be a resource in JSON)."""
    return name in ("_elements", "_format", "_pretty") or (name == "_summary" and value.lower() == "text")


def _status(number: int) -> str:
    return f"{number} {HTTPStatus(number).phrase}"
