"""From a request to the interaction that answers it, and from an error to its OperationOutcome."""

from __future__ import annotations

import sqlite3
from functools import lru_cache
from urllib.parse import urlsplit

from fhir_server.errors import FhirError
from fhir_server.interactions import delete, history, patch, read, search, transaction, write
from fhir_server.interactions.context import MAX_BODY, Exchange, Hospital, encode, open_exchange
from fhir_server.interactions.types import check_type
from fhir_server.metadata import capability_statement
from fhir_server.operations import everything
from fhir_server.search.query import unhandled
from fhir_server.wire.bundle import compact
from fhir_server.wire.http import CONTENT_TYPE, Request, Response, parse_query
from fhir_server.wire.outcome import error_outcome

FORM = "application/x-www-form-urlencoded"


def answer(hospital: Hospital, request: Request) -> Response:
    """Answers a request; whatever is wrong with it becomes an OperationOutcome."""
    exchange = open_exchange(hospital, request, _path(hospital.base))
    if exchange is None:
        error = FhirError(404, f"Nothing is served here; the base address is {hospital.base}", "not-found")
        return Response(404, [("Content-Type", CONTENT_TYPE)], encode(error_outcome(error)))
    try:
        hospital.store.refresh()
        _check(exchange)
        response = dispatch(exchange)
    except FhirError as error:
        response = error_response(exchange, error)
    except RecursionError:
        response = error_response(exchange, FhirError(400, "The request is nested too deeply"))
    except (sqlite3.DataError, OverflowError) as error:
        response = error_response(exchange, FhirError(400, f"The request cannot be answered: {error}"))
    except sqlite3.OperationalError as error:
        response = error_response(exchange, FhirError(503, f"The store cannot be used now: {error}", "transient"))
    if request.method == "HEAD":
        response.body = b""
    return response


@lru_cache(maxsize=64)
def _path(base: str) -> str:
    return urlsplit(base).path


def error_response(exchange: Exchange, error: FhirError) -> Response:
    """The OperationOutcome of an error."""
    text = error_outcome(error)
    if not exchange.pretty:
        text = compact(text)
    headers = [("X-Request-ID", exchange.request_id), ("Content-Type", CONTENT_TYPE)]
    return Response(error.status, headers, encode(text))


def _check(exchange: Exchange) -> None:
    """Refuses what is offered in no case: bodies that are too large, and formats other than JSON."""
    if len(exchange.request.body) > MAX_BODY:
        raise FhirError(413, f"The body is larger than {MAX_BODY} bytes", "too-long")
    wanted = exchange.value("_format")
    if wanted is None:
        wanted = exchange.request.header("accept") or ""
        if "json" in wanted or "*" in wanted:
            return
    elif "json" in wanted:
        return
    if any(word in wanted for word in ("xml", "html", "turtle", "ttl", "rdf")):
        raise FhirError(406, f"This server answers in JSON only, not in {wanted}", "not-supported")


def dispatch(exchange: Exchange) -> Response:
    """Calls the interaction that fits method and path."""
    method, segments = exchange.request.method, exchange.segments
    if not segments:
        return _at_base(exchange, method)
    kind = segments[0]
    if kind == "metadata" and len(segments) == 1:
        if method not in ("GET", "HEAD"):
            raise FhirError(405, "HAPI-0388: /metadata request must use HTTP GET")
        return capability_statement(exchange)
    if kind == "_history" and len(segments) == 1 and method in ("GET", "HEAD"):
        return history.history(exchange)
    if kind.startswith("$") or kind == "_history":
        raise _unhandled(exchange)
    check_type(kind)
    if len(segments) == 1:
        return _at_type(exchange, method)
    if segments[1] == "_search" and len(segments) == 2 and method in ("GET", "HEAD", "POST"):
        if exchange.request.body and (exchange.request.header("content-type") or "").startswith(FORM):
            exchange.pairs = exchange.pairs + parse_query(exchange.request.body.decode("utf-8", "replace"))
        return search.search(exchange, kind)
    if segments[1] == "_history" and len(segments) == 2 and method in ("GET", "HEAD"):
        return history.history(exchange, kind)
    if segments[1].startswith("$"):
        raise _unhandled(exchange)
    return _at_instance(exchange, method)


def _unhandled(exchange: Exchange) -> FhirError:
    names = ", ".join(sorted({name for name, _ in exchange.pairs}))
    return unhandled(exchange.request.method, "/".join(exchange.segments), names)


def _at_base(exchange: Exchange, method: str) -> Response:
    if method == "POST":
        return transaction.transaction(exchange, dispatch)
    if method == "OPTIONS":
        return capability_statement(exchange)
    if method in ("GET", "HEAD") and exchange.value("_getpages") is not None:
        return search.page(exchange)
    raise FhirError(
        400,
        "HAPI-0287: This is the base URL of FHIR server. Unable to handle this request,"
        " as it does not contain a resource type or operation name.",
    )


def _at_type(exchange: Exchange, method: str) -> Response:
    kind = exchange.segments[0]
    match method:
        case "GET" | "HEAD":
            return search.search(exchange, kind)
        case "POST":
            return write.create(exchange, kind)
        case "PUT":
            return write.update_by_condition(exchange, kind)
        case "PATCH":
            return patch.patch_by_condition(exchange, kind)
        case "DELETE":
            return delete.delete_by_condition(exchange, kind)
    raise _unhandled(exchange)


def _at_instance(exchange: Exchange, method: str) -> Response:
    kind, resource_id, *rest = exchange.segments
    match method, rest:
        case "GET" | "HEAD", [] | ["_history", _] if any(not name.startswith("_") for name, _ in exchange.pairs):
            raise _unhandled(exchange)
        case "GET" | "HEAD", []:
            return read.read(exchange, kind, resource_id)
        case "GET" | "HEAD", ["_history"]:
            return history.history(exchange, kind, resource_id)
        case "GET" | "HEAD", ["_history", version]:
            return read.read_version(exchange, kind, resource_id, version)
        case "GET" | "HEAD" | "POST", ["$everything"] if kind == "Patient":
            return everything.everything(exchange, resource_id)
        case "PUT", []:
            return write.update(exchange, kind, resource_id)
        case "PATCH", []:
            return patch.patch(exchange, kind, resource_id)
        case "DELETE", []:
            return delete.delete(exchange, kind, resource_id)
        case "POST", []:
            raise FhirError(
                400,
                f'HAPI-0365: Can not create resource with ID "{resource_id}", ID must not be supplied on a create'
                " (POST) operation (use an HTTP PUT / update operation if you wish to supply an ID)",
            )
    raise _unhandled(exchange)
