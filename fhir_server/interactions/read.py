"""Reads one resource: read and vread."""

from __future__ import annotations

import base64
import re
from email.utils import parsedate_to_datetime

from fhir_server.clock import http_date, instant
from fhir_server.errors import FhirError
from fhir_server.interactions.context import RequestContext
from fhir_server.resources.summary import cut_down
from fhir_server.search.hashing import java_hash, java_order
from fhir_server.search.query import subset
from fhir_server.store import Version
from fhir_server.wire.http import Response, sanitised
from fhir_server.wire.json_text import decode
from fhir_server.wire.outcome import error_outcome

OF_SEARCHES = ("_contained", "_count", "_include", "_revinclude", "_sort", "_total")
"""Parameters that a read refuses. It ignores all others that begin with `_`."""


def read(context: RequestContext, kind: str, resource_id: str, version: str = "") -> Response:
    """`GET Type/id`, or `Type/id/_history/n`: 404 if the resource or version never existed, 410 if it was deleted.

    For OperationDefinition, HAPI knows only the definitions of its own operations, not stored ones.
    """
    refused = java_order((name for name, _ in context.pairs if name in OF_SEARCHES), java_hash)
    if refused:
        raise FhirError(400, f'HAPI-0384: Invalid query parameter(s) for this request: "[{", ".join(refused)}]"')
    if kind == "OperationDefinition" and not version:
        raise FhirError(404, f"HAPI-2249: {kind}/{resource_id}")
    row = context.store.find(kind, resource_id)
    if row is None:
        raise not_known(kind, resource_id, version and f"/_history/{version}")
    if version:
        is_number = version.isascii() and version.isdigit()
        row = context.store.version(kind, resource_id, int(version)) if is_number and len(version) < 10 else None
    if row is None:
        code = "0979" if is_number else "0978"
        raise FhirError(404, f'HAPI-{code}: Version "{version}" is not valid for resource {kind}/{resource_id}')
    return _answer(context, row)


def current(context: RequestContext, kind: str, resource_id: str) -> Version:
    """The current version of a resource.

    Raises:
        FhirError: 404 if it never existed, 410 if it was deleted.
    """
    row = context.store.find(kind, resource_id)
    if row is None:
        raise not_known(kind, resource_id)
    if row.text is None:
        raise _gone(row)
    return row


def _gone(row: Version) -> FhirError:
    return FhirError(410, f"Resource was deleted at {instant(row.updated)}")


def gone_response(context: RequestContext, row: Version) -> Response:
    """The response to a read or patch of a deleted resource."""
    return context.respond(410, error_outcome(_gone(row)), [("Location", location(context.base, row))])


def etag(header: str | None) -> str:
    """The version in `If-Match` or `If-None-Match`; "" if there is none."""
    match = re.fullmatch(r'(?:W/)?"?([^"]*)"?', (header or "").strip())
    return match.group(1) if match else ""


def expected_version(if_match: str | None) -> str:
    """The version in `If-Match`; "" if there is none. Raises 400 for several: HAPI answers 500."""
    version = etag(if_match)
    if if_match and not version:
        raise FhirError(400, 'If-Match must be one version, such as W/"1"')
    return version


def not_known(kind: str, resource_id: str, version: str = "") -> FhirError:
    """The error for an id that was never used. HAPI words it differently for ids of digits."""
    if resource_id.isascii() and resource_id.isdigit():
        return FhirError(404, f"HAPI-1996: Resource {kind}/{resource_id}{version} is not known")
    return FhirError(404, f"HAPI-2001: Resource {kind}/{sanitised(resource_id)} is not known")


def location(base: str, row: Version) -> str:
    """The URL of one version."""
    return f"{base}/{row.type}/{row.id}/_history/{row.version}"


def _answer(context: RequestContext, row: Version) -> Response:
    if row.text is None:
        return gone_response(context, row)
    if _is_unchanged(context, row):
        return Response(304)
    headers = [
        ("ETag", f'W/"{row.version}"'),
        ("Content-Location", location(context.base, row)),
        ("Last-Modified", http_date(row.updated // 1000)),
    ]
    if row.type == "Binary" and not asks_for_fhir(context):
        return content(context, 200, row.text, headers)
    try:
        selected = subset(context.pairs, row.type)
        if selected.summary == "text":
            return _narrative(context, row.text, headers)
        text = row.text if selected.summary == "count" else cut_down(row.text, selected)
        return context.respond(200, text, headers)
    except FhirError as error:
        if not error.dated:
            raise
        return context.respond(error.status, error_outcome(error), headers)


def asks_for_fhir(context: RequestContext) -> bool:
    """Whether the client requests a format of FHIR by name, not any JSON or XML. Otherwise a Binary is sent as its
    content.
    """
    accepted = context.request.header("accept") or ""
    return bool(context.value("_format")) or ("fhir" in accepted and ("json" in accepted or "xml" in accepted))


def content(context: RequestContext, status: int, text: str, headers: list[tuple[str, str]]) -> Response:
    """The content of a Binary, as an attachment, so that a browser does not run it."""
    resource = decode(text)
    kind = _media_type(str(resource.get("contentType", ""))) or "application/octet-stream"
    body = base64.b64decode(str(resource.get("data", "")))
    headers = [header for header in headers if header[0] != "Last-Modified"]
    named = [
        ("X-Request-ID", context.request_id),
        *headers,
        ("Content-Disposition", "Attachment;"),
        ("Content-Type", kind),
    ]
    return Response(status, named, body)


def _media_type(text: str) -> str:
    """The text if it is a media type that is valid in a header, otherwise ""."""
    return text if re.fullmatch(r"[\w.+-]+/[\w.+-]+(\s*;[ -~]*)?", text, re.ASCII) else ""


def _narrative(context: RequestContext, text: str, headers: list[tuple[str, str]]) -> Response:
    """The narrative as HTML (`_summary=text`). HAPI writes `null` if there is none."""
    narrative = (decode(text).get("text") or {}).get("div") or "null"
    headers = [("X-Request-ID", context.request_id), *headers, ("Content-Type", "text/html;charset=UTF-8")]
    return Response(200, headers, narrative.encode())


def _is_unchanged(context: RequestContext, row: Version) -> bool:
    if etag(context.request.header("if-none-match")) == str(row.version):
        return True
    since = context.request.header("if-modified-since")
    try:
        return since is not None and row.updated // 1000 <= parsedate_to_datetime(since).timestamp()
    except (ValueError, TypeError, OverflowError):
        return False
