"""`PATCH`: JSON Patch (RFC 6902) or FHIRPath Patch (a Parameters resource)."""

from __future__ import annotations

from fhir_server.errors import FhirError
from fhir_server.interactions._matching import MatchUrl
from fhir_server.interactions.context import RequestContext
from fhir_server.interactions.read import expected_version, gone_response, not_known
from fhir_server.interactions.write import Written, put, versioned, written_response
from fhir_server.patch.fhirpath_patch import apply_fhir_patch
from fhir_server.patch.json_patch import apply_json_patch, operations
from fhir_server.resources.normalise import PARSE_FAILED, normalise
from fhir_server.resources.strict import check_strictly
from fhir_server.store import Version
from fhir_server.wire import outcome
from fhir_server.wire.http import Response, split_target
from fhir_server.wire.json_text import parse
from fhir_server.wire.json_values import Json
from fhir_server.wire.outcome import Stored
from fhir_server.wire.xml import parse_xml

JSON_PATCH = "application/json-patch+json"
FHIR_PATCHES = ("application/fhir+json", "application/fhir+xml")


def patch(context: RequestContext, kind: str, resource_id: str) -> Response:
    """`PATCH Type/id`."""
    content_type = _checked_type(context)
    row = context.store.find(kind, resource_id)
    if row is None:
        raise not_known(kind, resource_id)
    if row.text is None:
        return gone_response(context, row)
    version = expected_version(context.request.header("if-match"))
    if version and version != str(row.version):
        problem = f"Version {version} is not the most recent version of this resource, unable to apply patch"
        raise FhirError(409, f"HAPI-0550: HAPI-0974: {problem}")
    return _patched(context, row, content_type)


def patch_by_condition(context: RequestContext, kind: str) -> Response:
    """`PATCH Type?…`: patches the match, if it is the only one."""
    content_type = _checked_type(context)
    _, query = split_target(context.request.target)
    return _patched(context, only_match(context, kind, query), content_type, f"{kind}?{query}")


def only_match(context: RequestContext, kind: str, query: str) -> Version:
    """The resource that matches the condition of a patch. Raises HAPI's error if there is not exactly one."""
    row = MatchUrl(context, kind, query).only("PATCH")
    if row is None:
        raise FhirError(404, f'HAPI-0973: Invalid match URL "{kind}?{query}" - No resources match this search')
    return row


def _patched(context: RequestContext, row: Version, content_type: str, condition: str = "") -> Response:
    with context.store.transaction():
        written, stored = patch_resource(context, row, content_type, context.request.body, condition)
    return written_response(context, written, stored, "ETag Location")


def _checked_type(context: RequestContext) -> str:
    """The media type of a patch. A FHIRPath Patch is parsed here, since HAPI reports its errors first.

    Raises:
        FhirError: HAPI-1964 or HAPI-1965 for an unknown type; 415 for a patch in XML, which HAPI applies.
    """
    kind = (context.request.header("content-type") or "").partition(";")[0].strip()
    if not kind:
        raise FhirError(400, "HAPI-1964: Missing or invalid content type for PATCH operation")
    if kind == "application/xml-patch+xml":
        problem = f"This server applies no patches in XML: send a JSON Patch ({JSON_PATCH}) or a FHIRPath patch"
        raise FhirError(415, f"{problem} (a Parameters resource, {FHIR_PATCHES[0]})", "not-supported")
    if kind not in (JSON_PATCH, *FHIR_PATCHES):
        raise FhirError(400, f"HAPI-1965: Invalid Content-Type for PATCH operation: {kind}")
    if kind in FHIR_PATCHES:
        _parameters(context.request.body, kind)
    return kind


def patch_resource(
    context: RequestContext, row: Version, content_type: str, body: bytes, condition: str = ""
) -> tuple[Written, Stored]:
    """Applies a patch and stores the result as the next version. The report repeats the condition."""
    target = row.resource
    if content_type == JSON_PATCH:
        resource = _strictly_parsed(apply_json_patch(target, operations(body.decode("utf-8", "replace"))), row)
    else:
        resource = normalise(apply_fhir_patch(target, _parameters(body, content_type)), expected_type=row.type)
    written = put(context, {**resource, "id": row.id}, row, row.id)  # HAPI ignores a change of the id
    changed, same = outcome.patched, outcome.patched_without_change
    if condition:
        changed, same = outcome.patched_conditionally, outcome.patched_conditionally_without_change
    return written, (same if written.change == "same" else changed)(versioned(written.row), condition)


def _strictly_parsed(changed: Json, row: Version) -> Json:
    """The result of a JSON Patch, normalised. Refused if normalising would drop data."""
    try:
        check_strictly(changed, row.type)
        return normalise(changed, expected_type=row.type)
    except FhirError as error:
        problem = error.diagnostics.removeprefix(PARSE_FAILED)
        raise FhirError(400, f"HAPI-1271: Failed to apply JSON patch to {row.reference}: {problem}") from None


def _parameters(body: bytes, content_type: str) -> Json:
    text = body.decode("utf-8", "replace")
    if content_type == "application/fhir+json":
        return normalise(parse(text), expected_type="Parameters")
    return normalise(parse_xml(text), expected_type="Parameters")
