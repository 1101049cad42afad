"""`POST` to the base: batch and transaction Bundles.

A transaction runs its entries in HAPI's order: deletes, creates (conditional ones last), updates, patches, reads.
Before that, references between entries and conditional references are replaced. The Bundle is one transaction of the
store. As in HAPI, the id of a failed write is not used again.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from http import HTTPStatus
from urllib.parse import urlsplit

from fhir_server.clock import instant
from fhir_server.errors import FhirError
from fhir_server.interactions import patch, write
from fhir_server.interactions._matching import (
    MatchUrl,
    UnmetConditionError,
    is_placeholder,
    not_satisfied,
    placeholders,
    resolve,
    source,
    with_references,
)
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
    refers: bool = False
    """Whether its resource refers to another entry, or by a condition."""

    @property
    def match_query(self) -> str:
        """The query of its condition."""
        return (self.condition or "").rpartition("?")[2] if self.method == "POST" else self.query

    @property
    def placeholders(self) -> set[str]:
        """The values of its condition that are placeholders."""
        return placeholders(self.match_query) if "urn" in self.match_query else set()

    def refer(self, known: Mapping[str, str]) -> None:
        """Replace the placeholders in its condition by the references of their entries."""
        if self.method == "POST" and self.condition is not None:
            prefix, mark, query = self.condition.rpartition("?")
            self.condition = f"{prefix}{mark}{with_references(query, known)}"
        else:
            self.query = with_references(self.query, known)
            self.url = f"{self.url.partition('?')[0]}?{self.query}"

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
                entry.number: _alone(context, entry, dispatch)
                for entry in sorted(entries, key=lambda entry: entry.method == "GET")
            }
            texts = [done[entry.number] for entry in entries]
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


def _check_entry(entry: Entry) -> None:
    """Refuses an invalid entry before any entry is run. For a POST, sets `kind` to the type of the resource."""
    if entry.method == "HEAD":
        raise FhirError(400, "HAPI-0538: Unable to handle verb in transaction: HEAD")
    if entry.method == "POST" and entry.url and entry.kind not in resource_types():
        raise FhirError(400, f"HAPI-2006: Unable to perform POST, URL provided is invalid: {entry.url}")
    if entry.method in ("POST", "PUT", "PATCH") and entry.resource is None:
        problem = f"Missing required resource in Bundle.entry[{entry.number}].resource for operation {entry.method}"
        raise FhirError(400, f"HAPI-0543: {problem}")
    if not entry.url and entry.method != "POST":
        raise FhirError(400, f"HAPI-0545: Unable to perform {entry.method}, no URL provided.")
    if entry.method in ("PUT", "PATCH", "DELETE"):
        if entry.kind not in resource_types():
            raise FhirError(400, f"HAPI-2006: Unable to perform {entry.method}, URL provided is invalid: {entry.url}")
        if entry.rest and entry.rest[0] != "_history":
            raise FhirError(400, f"HAPI-1742: Invalid FHIR resource URL: {entry.url}")
        if entry.method in ("PUT", "PATCH") and not entry.id and not entry.query:
            shown = f"{entry.kind}?{entry.kind}"
            raise FhirError(400, f"HAPI-0518: Invalid match URL[{shown}] - URL has no search parameters")
    if entry.method == "POST" and entry.resource is not None:
        entry.kind, entry.id, entry.query = str(entry.resource["resourceType"]), "", ""


def _alone(context: RequestContext, member: Entry, dispatch: Dispatch) -> str:
    """The response to an entry of a batch, which may be an error."""
    try:
        with context.store.transaction():
            return _together(context, [member], dispatch)[0]
    except FhirError as error:
        return entry(_failed(error))


def _failed(error: FhirError) -> Fields:
    outcome = ("outcome", error_outcome(error, "exception"))
    return [("response", members([("status", quoted(_status(error.status))), outcome]))]


def _together(context: RequestContext, entries: list[Entry], dispatch: Dispatch) -> list[str]:
    """Runs entries in HAPI's order. The responses are in the order of the Bundle."""
    context.deleted.clear()
    for member in entries:
        _check_entry(member)
    _check_twice(entries)
    order = sorted(
        entries, key=lambda entry: (ORDER[entry.method], entry.condition or (entry.query and entry.url) or "")
    )
    known = _announce(context, order)
    context.announced = {
        f"{entry.kind}/{entry.id or entry.row_id}" for entry in order if entry.method in ("POST", "PUT")
    }
    context.announced.update(known.values())
    for member in order:
        if member.resource is not None:
            member.refers = resolve(context, member.resource, known)
    texts: dict[int, str] = {}
    references: list[ReferenceRow] = []
    for member in order:
        written: Written | None = None
        if member.method == "GET":
            _check(context, references)
            texts[member.number] = entry(_read(context, member, dispatch))
        else:
            fields, written = _run(context, member)
            texts[member.number] = entry(fields)
        if context.store.meter is not None:
            context.store.meter.entered(len(texts[member.number]))
        if written is not None:
            references += written.references
    _check(context, references)
    check_deleted(context)
    return [texts[member.number] for member in entries if member.number in texts]


def _check(context: RequestContext, references: list[ReferenceRow]) -> None:
    if context.server.reference_check:
        check_references(context, references)
    references.clear()


def _check_twice(entries: list[Entry]) -> None:
    seen: set[str] = set()
    for member in entries:
        if member.method == "PATCH":
            continue
        name = f"{member.kind}/{member.id}" if member.method == "PUT" and member.id else member.source
        if name in seen:
            code = "0534" if is_placeholder(name) else "0535"
            raise FhirError(400, f"HAPI-{code}: Transaction bundle contains multiple resources with ID: {name}")
        if name:
            seen.add(name)


def _announce(context: RequestContext, order: list[Entry]) -> dict[str, str]:
    """Assigns numbers to new resources before the first write. Returns the new reference of each entry by `source`.

    Placeholders of other entries in conditions get their new references. Removes from `order` the entries with a
    `fullUrl` that repeat the method and condition of an earlier entry.
    """
    known: dict[str, str] = {}
    conditions: set[tuple[str, str]] = set()
    writes = [item for item in order if item.method in ("POST", "PUT")]
    created = {item.source for item in writes if item.method == "POST"}
    for item in _after_their_placeholders(writes):
        if item.placeholders:
            # HAPI creates before it updates, so the condition of a create cannot refer to an update.
            item.refer(known if item.method == "PUT" else {name: known[name] for name in created & known.keys()})
        resource = item.resource or {}
        kind = resource["resourceType"]
        if kind != item.kind:
            raise FhirError(400, f"HAPI-0996: Incorrect resource type ({item.kind}) for this DAO, wanted: {kind}")
        if item.method == "PUT" and item.id:
            known[item.source] = f"{item.kind}/{item.id}"
            continue
        query = item.match_query
        condition = f"{item.kind}?{query}"
        if item.full_url and (item.method, condition) in conditions:
            order.remove(item)
        if condition not in known:
            reference = _reference(context, item, query)
            if query:
                known[condition] = reference
                conditions.add((item.method, condition))
            known[item.source] = reference
        else:
            known[item.source] = known[condition]
    known.pop("", None)
    return known


def _after_their_placeholders(writes: list[Entry]) -> list[Entry]:
    """The writes; those whose condition refers to other entries come last, and after these."""
    places = {item.source: place for place, item in enumerate(writes)}
    needed = {
        place: {places[name] for name in item.placeholders if name in places}
        for place, item in enumerate(writes)
        if item.placeholders
    }
    free = [item for place, item in enumerate(writes) if place not in needed]
    try:
        sorted_places = [place for place in TopologicalSorter(needed).static_order() if place in needed]
    except CycleError:  # they cannot be replaced, so that no resource satisfies them
        sorted_places = list(needed)
    return free + [writes[place] for place in sorted_places]


def _reference(context: RequestContext, item: Entry, query: str) -> str:
    """The reference of the resource that an entry finds or makes. Assigns a number to a new one."""
    matches = MatchUrl(context, item.kind, query).numbers() if query else []
    if matches:
        return context.store.rows(matches)[0].reference
    own_id = write.own_id(context, item.resource or {}) if item.method == "PUT" else None
    if own_id:
        return f"{item.kind}/{own_id}"
    item.row_id = context.store.next_row_id()
    return f"{item.kind}/{item.row_id}"


def _run(context: RequestContext, entry: Entry) -> tuple[Fields, Written | None]:
    """Runs an entry. Returns the fields of its response, and the result of its write."""
    match entry.method:
        case "DELETE":
            return _delete(context, entry), None
        case "POST" | "PUT":
            assert entry.resource is not None
            written, stored = _write(context, entry, entry.resource)
            return _written(context, written, stored), written
    return _patch(context, entry)


def _write(context: RequestContext, entry: Entry, resource: Resource) -> tuple[Written, Stored]:
    try:
        return _written_entry(context, entry, resource)
    except UnmetConditionError:
        if entry.refers:
            raise not_satisfied() from None
        raise


def _written_entry(context: RequestContext, entry: Entry, resource: Resource) -> tuple[Written, Stored]:
    if entry.method == "POST":
        return write.create_resource(context, resource, entry.condition, entry.row_id)
    if entry.id:
        written, stored = write.update_resource(context, resource | {"id": entry.id}, entry.id, entry.if_match)
        return written, stored if written.change == "created" else untimed(stored)
    written, stored = write.conditional_update(context, resource, entry.query, entry.url, entry.row_id)
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


def _delete(context: RequestContext, entry: Entry) -> Fields:
    fields = [("status", quoted("204 No Content"))]
    if entry.id:
        row, stored = write.delete_resource(context, entry.kind, entry.id)
        if row is not None:
            fields += [("location", quoted(write.versioned(row))), ("etag", quoted(str(row.version)))]
    else:
        stored = write.delete_matches(context, entry.kind, entry.query)
    return [("response", members([*fields, ("outcome", stored_outcome(stored))]))]


def _patch(context: RequestContext, entry: Entry) -> tuple[Fields, Written | None]:
    resource = entry.resource or {}
    if resource.get("resourceType") not in ("Binary", "Parameters"):
        raise FhirError(400, "HAPI-0537: Unable to determine PATCH body from request")
    row = context.store.find(entry.kind, entry.id) if entry.id else patch.only_match(context, entry.kind, entry.query)
    if row is None or row.text is None:
        raise not_known(entry.kind, entry.id)
    if resource.get("resourceType") == "Binary":
        body, kind = base64.b64decode(str(resource.get("data", ""))), patch.JSON_PATCH
    else:
        body, kind = render(resource).encode(), "application/fhir+json"
    written, stored = patch.patch_resource(context, row, kind, body, "" if entry.id else entry.url)
    return _written(context, written, untimed(stored)), written


def _read(context: RequestContext, entry: Entry, dispatch: Dispatch) -> Fields:
    """Answers a read or search in a Bundle like a separate request. An unknown URL fails the whole Bundle."""
    if entry.kind[:1].isalpha() and entry.kind != "metadata":
        check_type(entry.kind)
    target = f"{urlsplit(context.base).path}/{entry.url.lstrip('/')}"
    path, query = split_target(entry.url)
    pairs = parse_query(query)
    unused = tuple([pair for pair in pairs if _is_unused(*pair)])
    inner = replace(
        context,
        request=Request("GET", target, [("If-None-Match", entry.if_none_match)] if entry.if_none_match else ()),
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
