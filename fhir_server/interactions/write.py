"""Creates and updates: `POST Type`, `PUT Type/id`, and the conditional forms."""

from __future__ import annotations

import base64
import re

from fhir_server.clock import http_date
from fhir_server.errors import FhirError
from fhir_server.interactions._inline import resolved
from fhir_server.interactions._matching import check_satisfied, matching, several_match
from fhir_server.interactions.context import RequestContext
from fhir_server.interactions.put import Written, put
from fhir_server.interactions.read import asks_for_fhir, content, etag, location
from fhir_server.resources.normalise import Resource, normalise
from fhir_server.resources.primitives import VALID_ID
from fhir_server.store import Version
from fhir_server.wire import outcome
from fhir_server.wire.http import Response
from fhir_server.wire.json_text import parse
from fhir_server.wire.json_values import Json
from fhir_server.wire.outcome import Stored, stored_outcome
from fhir_server.wire.xml_reader import parse_xml

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
    return written_response(context, written, stored, with_location=True)


def create_resource(
    context: RequestContext, resource: Resource, condition: str | None, row_id: int | None = None
) -> tuple[Written, Stored]:
    """Creates a resource, unless one matches the condition. The new id is `row_id` or the next number."""
    kind = str(resource["resourceType"])
    if condition:
        query = condition.partition("?")[2] if "?" in condition else condition
        matches = matching(context, kind, query, shown=condition)
        if len(matches) > 1:
            raise several_match("CREATE", kind, condition, len(matches))
        if matches:
            row = context.store.rows(matches)[0]
            return Written(row, "same"), outcome.found_conditionally(versioned(row), condition)
    written = put(context, resource, None, row_id=row_id)
    reference = versioned(written.row)
    if condition:
        check_satisfied(context, kind, query, condition)
        return written, outcome.created_conditionally(reference, condition)
    return written, outcome.created(reference)


def update(context: RequestContext, kind: str, resource_id: str) -> Response:
    """`PUT Type/id`."""
    resource = body_resource(context, kind, "UPDATE")
    if kind == "Binary" and not _is_fhir(context):
        resource["id"] = resource_id  # raw bytes have no id
    check_body_id(resource, resource_id)
    with context.store.transaction():
        written, stored = update_resource(context, resource, resource_id, context.request.header("if-match"))
    return written_response(context, written, stored, with_location=False)


def check_body_id(resource: Resource, resource_id: str) -> None:
    """Raises HAPI-0419 or HAPI-0420 if the body's id is not that of the URL."""
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
    """Raises HAPI-0989 if `If-Match` has another version than the current one."""
    expected = etag(if_match)
    if row is not None and expected and expected != str(row.version):
        raise FhirError(
            409,
            f"HAPI-0550: HAPI-0989: Trying to update {row.reference}/_history/{expected}"
            " but this is not the current version",
        )


def update_by_condition(context: RequestContext, kind: str) -> Response:
    """`PUT Type?…`: updates the only match, or creates a resource if there is no match."""
    resource = body_resource(context, kind, "UPDATE")
    _, mark, query = context.request.target.partition("?")
    if not mark:
        raise FhirError(
            400,
            "HAPI-0418: Can not update resource, request URL must contain an ID element for update (PUT) operation"
            " (it must be of the form [base]/[resource type]/[id])",
        )
    with context.store.transaction():
        written, stored = conditional_update(context, resource, query, f"{kind}?{query}")
    return written_response(context, written, stored, with_location=False)


def conditional_update(
    context: RequestContext, resource: Resource, query: str, shown: str, row_id: int | None = None
) -> tuple[Written, Stored]:
    """Updates the one resource that matches a condition, or creates one. Messages repeat the condition as `shown`."""
    kind = str(resource["resourceType"])
    matches = matching(context, kind, query)
    if len(matches) > 1:
        raise several_match("UPDATE", kind, shown, len(matches))
    if matches:
        row = context.store.rows(matches)[0]
        written = put(context, {**resource, "id": row.id}, row, row.id)
        report = outcome.unchanged_conditionally if written.change == "same" else outcome.updated_conditionally
        return written, report(versioned(written.row), shown)
    body_id = resource.get("id")
    if body_id is not None and VALID_ID.fullmatch(str(body_id)) and not str(body_id).isdigit():
        written, _ = update_resource(context, resource, str(body_id), None)
    else:
        written = put(context, resource, None, row_id=row_id)
    check_satisfied(context, kind, query, shown)
    return written, outcome.created_by_conditional_update(versioned(written.row), shown)


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
    return resolved(context, resource) if b"?" in context.request.body and kind != "Bundle" else resource


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


def written_response(context: RequestContext, written: Written, stored: Stored, *, with_location: bool) -> Response:
    """The response to a write, in the form of `Prefer`."""
    row = written.row
    address = location(context.base, row)
    headers = [("ETag", f'W/"{row.version}"'), ("Content-Location", address)]
    headers.append(("Last-Modified", http_date(row.updated // 1000)))
    if with_location:
        headers.append(("Location", address))
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
