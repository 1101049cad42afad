"""Routes a request to the interaction that answers it, and turns an error into an OperationOutcome.

Outside the FHIR base there are a description at `/`, and a health check at the same path as in HAPI's starter.
"""

from __future__ import annotations

import html
import json
import sqlite3
from functools import lru_cache
from urllib.parse import urlsplit

from fhir_server._metadata import capability_statement
from fhir_server.clock import http_date
from fhir_server.errors import FhirError
from fhir_server.expressions.budget import one_budget
from fhir_server.interactions import patch, read, search, write
from fhir_server.interactions.context import (
    MAX_BODY,
    RequestContext,
    ServerContext,
    check_type,
    open_request,
)
from fhir_server.interactions.history import history
from fhir_server.interactions.transaction import transaction
from fhir_server.operations.table import Level, find, other_methods
from fhir_server.search.query import unhandled
from fhir_server.wire.http import CONTENT_TYPE, Request, Response
from fhir_server.wire.outcome import error_outcome


def answer(server: ServerContext, request: Request) -> Response:
    """Answers a request; any error becomes an OperationOutcome."""
    context = open_request(server, request, _path(server.base))
    if context is None:
        response = outside(server.base, request)
        if response is not None:
            return response
        error = FhirError(404, f"This address does not exist; the base address is {server.base}", "not-found")
        return Response(404, [("Content-Type", CONTENT_TYPE)], error_outcome(error).encode())
    try:
        server.store.refresh()
        _check(context)
        with one_budget(server.store.meter):
            response = dispatch(context)
    except FhirError as error:
        response = error_response(context, error)
    except RecursionError:
        response = error_response(context, FhirError(400, "The request is nested too deeply"))
    except (sqlite3.DataError, OverflowError) as error:
        response = error_response(context, FhirError(400, f"The request cannot be answered: {error}"))
    except sqlite3.DatabaseError as error:  # the file is locked, interrupted or damaged
        if server.store.meter is not None:
            server.store.meter.check()
        if (
            getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR
        ):  # the statement itself: more values than SQLite takes
            refusal = FhirError(400, f"The request cannot be answered: {error}", "too-costly")
        else:
            refusal = FhirError(503, f"The store cannot be used now: {error}", "transient")
        response = error_response(context, refusal)
    if request.method == "HEAD":
        response.body = b""
    if server.store.meter is not None:
        server.store.meter.check_reply(len(response.body))
    return response


@lru_cache(maxsize=64)
def _path(base: str) -> str:
    return urlsplit(base).path


def error_response(context: RequestContext, error: FhirError) -> Response:
    """The OperationOutcome of an error."""
    headers = [("Last-Modified", http_date(context.now // 1000))] if error.dated else []
    if error.allow:
        headers.append(("Allow", error.allow))
    return context.respond(error.status, error_outcome(error), headers)


def _check(context: RequestContext) -> None:
    """Refuses bodies that are too large, and formats other than JSON and XML. A Binary is sent in any."""
    if len(context.request.body) > MAX_BODY:
        raise FhirError(413, f"The body is larger than {MAX_BODY} bytes", "too-long")
    is_content = context.segments[:1] == ("Binary",) and len(context.segments) > 1
    if context.layout.refused and not is_content:
        problem = f"This server answers in JSON and XML, not in {context.layout.refused}"
        raise FhirError(406, problem, "not-supported")


def dispatch(context: RequestContext) -> Response:
    """Calls the interaction that fits method and path."""
    method, segments = context.request.method, context.segments
    if not segments:
        return _at_base(context, method)
    kind = segments[0]
    if kind == "metadata":  # HAPI ignores the rest of the path, and the method for `_history`
        if method != "GET":
            raise FhirError(405, "HAPI-0388: /metadata request must use HTTP GET", allow="GET")
        return capability_statement(context)
    if kind == "_history":
        return history(context)
    if kind.startswith("$"):
        return _operation(context, "system")
    if kind == "_search":
        raise _unhandled(context)
    check_type(kind)
    if len(segments) == 1:
        return _at_type(context, method)
    if segments[1] == "_search" and len(segments) == 2:
        if method not in ("GET", "POST"):
            raise _unhandled(context)
        if context.request.body and (context.request.header("content-type") or "").startswith(write.FORM):
            context.add_form()
        return search.search(context, kind)
    if segments[1] == "_history":
        return history(context, kind)
    if segments[1].startswith("$"):
        return _operation(context, "type", kind)
    if len(segments) == 3 and segments[2].startswith("$"):
        return _operation(context, "instance", kind, segments[1])
    return _at_instance(context, method)


def _operation(context: RequestContext, level: Level, kind: str = "", resource_id: str = "") -> Response:
    operation = find(context.segments[-1], level, kind, context.request.method)
    if operation is None:
        method, others = context.request.method, other_methods(context.segments[-1], level, kind)
        if others and method in ("GET", "POST"):
            allowed = ", ".join(others)
            problem = f"HTTP Method {method} is not allowed for this operation. Allowed method(s): {allowed}"
            raise FhirError(405, f"HAPI-0426: {problem}", allow=",".join(others))
        raise _unhandled(context)
    return operation.handler(context, kind, resource_id)


def _unhandled(context: RequestContext) -> FhirError:
    return unhandled(context.request.method, "/".join(context.segments), sorted(dict(context.pairs)))


def _at_base(context: RequestContext, method: str) -> Response:
    if method == "POST":
        return transaction(context, dispatch)
    if method == "OPTIONS":
        return capability_statement(context)
    if method in ("GET", "HEAD") and context.value("_getpages") is not None:
        return search.page(context)
    if len(context.path) > 1 and method != "HEAD":  # only slashes
        raise unhandled(method, context.path[1:])
    raise FhirError(
        400,
        "HAPI-0287: This is the base URL of FHIR server. Unable to handle this request,"
        " as it does not contain a resource type or operation name.",
    )


def _at_type(context: RequestContext, method: str) -> Response:
    kind = context.segments[0]
    if method == "GET":
        return search.search(context, kind)
    match method:
        case "POST":
            return write.create(context, kind)
        case "PUT":
            return write.update_by_condition(context, kind)
        case "PATCH":
            return patch.patch_by_condition(context, kind)
        case "DELETE":
            return write.delete_by_condition(context, kind)
    raise _unhandled(context)


def _at_instance(context: RequestContext, method: str) -> Response:
    kind, resource_id, *rest = context.segments
    match method, rest:
        case "GET" | "HEAD", [] | ["_history", _] if any(not name.startswith("_") for name, _ in context.pairs):
            raise _unhandled(context)
        case _, ["_history"]:
            return history(context, kind, resource_id)
        case "GET" | "HEAD", [] | ["_history", _]:
            return read.read(context, kind, resource_id, *rest[1:])
        case "PUT", [] | [_] | ["_history", _]:
            return write.update(context, kind, resource_id, *rest[1:])
        case "PATCH", []:
            return patch.patch(context, kind, resource_id)
        case "DELETE", []:
            return write.delete(context, kind, resource_id)
        case "POST", _:
            return write.create(context, kind, resource_id)
    raise _unhandled(context)


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>fhir_server</title></head>
<body>
<h1>fhir_server</h1>
<p>A FHIR R4 server. Its base address is <a href="{base}/metadata">{base}</a>; for example:</p>
<ul>
<li><a href="{base}/metadata">{base}/metadata</a>: what it offers</li>
<li><a href="{base}/Patient?_count=10">{base}/Patient?_count=10</a>: the first ten patients</li>
<li><a href="{base}/$get-resource-counts">{base}/$get-resource-counts</a>: how many resources there are</li>
</ul>
</body>
</html>
"""


def outside(base: str, request: Request) -> Response | None:
    """The answer to a request outside the base; None without a page."""
    path = request.target.partition("?")[0]
    if request.method not in ("GET", "HEAD"):
        return None
    if path == "/":
        headers = [("Content-Type", "text/html;charset=UTF-8"), ("X-Content-Type-Options", "nosniff")]
        return Response(200, headers, _PAGE.format(base=html.escape(base)).encode())
    if path == "/actuator/health":
        kind = "application/vnd.spring-boot.actuator.v3+json"
        return Response(200, [("Content-Type", kind)], json.dumps({"status": "UP"}).encode())
    return None
