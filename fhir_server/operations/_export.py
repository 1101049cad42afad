"""`$export`: bulk data as NDJSON files (HL7's Bulk Data Access). One request starts an export, others fetch its files.

`[base]/$export` exports everything, `Patient/$export` the patients and their resources, `Group/[id]/$export` the same
for the patients of a Group. The reply is 202 with the address of the status, which lists the files when they are
written. Only a server with `--export` offers it; others answer as a HAPI without bulk export.
"""

from __future__ import annotations

import json

from fhir_server.clock import instant
from fhir_server.definitions import is_resource_type, resource_types
from fhir_server.errors import FhirError, WritesElsewhere
from fhir_server.interactions.context import RequestContext
from fhir_server.interactions.exports import Export, Exports, ExportSelection
from fhir_server.interactions.read import current
from fhir_server.operations._parameters import Arguments
from fhir_server.resources.primitives import PrimitiveError, check_date
from fhir_server.search.kinds.date import span
from fhir_server.search.query import unhandled
from fhir_server.store import BaseStore
from fhir_server.wire.http import Response

STATUS, FILE = "$export-poll-status", "$export-file"
_NDJSON = ("application/fhir+ndjson", "application/ndjson", "ndjson")
_INVALID = "HAPI-2039: Failed to validate parameters for job of type BULK_EXPORT: \n *"
RETRY_S = "1"
"""Seconds after which a client should request the status again."""


def export(context: RequestContext, kind: str, resource_id: str) -> Response:
    """Starts an export: 202 with the address of its status.

    Raises:
        FhirError: 400 if the request lacks `Prefer: respond-async` or contains an unsupported parameter; 404 for an
            unknown Group; 429 if too many exports are being written.
        WritesElsewhere: the process that writes must answer, so that the export includes writes in progress.
    """
    exports, arguments = _exports(context), Arguments(context)
    if "respond-async" not in (context.request.header("prefer") or ""):
        raise FhirError(400, "HAPI-0513: Must request async processing for $export")
    patients, group = _patients(context, kind, resource_id)
    output = arguments.text("_outputFormat")
    if output and output.replace(" ", "+") not in _NDJSON:
        raise FhirError(400, f"{_INVALID} The only allowed format for Bulk Export is currently {_NDJSON[0]}")
    if arguments.text("_typeFilter"):
        raise FhirError(400, "This server does not filter exports by _typeFilter: leave it out", "not-supported")
    types, since = _types(arguments), arguments.text("_since").replace(" ", "+")
    if since:
        _check_since(since)
    order = ExportSelection(types, span(since).low if since else 0, bool(kind), patients, group)
    store = context.store
    if isinstance(store, BaseStore) and store.writes_elsewhere:
        raise WritesElsewhere
    export_id = context.server.ids.uuid()
    authorized = context.request.header("authorization") is not None
    address = context.base + context.path + ("?" + query if (query := context.request.target.partition("?")[2]) else "")
    exports.start(export_id, order, address, context.now, authorized=authorized)
    return Response(202, [("Content-Location", f"{context.base}/{STATUS}?_jobId={export_id}")])


def status(context: RequestContext, kind: str, resource_id: str) -> Response:
    """The status of an export: 202 while it is written, then 200 and the list of its files; `DELETE` drops it.

    Raises:
        FhirError: 404 for an unknown export; 500 if the process that wrote it failed.
    """
    exports = _exports(context)
    export_id, job = _named(context, exports)
    if context.request.method == "DELETE":
        exports.drop(export_id)
        return Response(202)
    match job.status:
        case "running":
            words = f"Build in progress - Status set to IN_PROGRESS at {instant(job.ordered)}"
            return Response(202, [("X-Progress", words), ("Retry-After", RETRY_S)])
        case "failed":
            raise FhirError(500, "The export could not be written: see the server's own messages", "exception")
    address = f"{context.base}/{FILE}?_jobId={export_id}&_file="
    manifest = {
        "transactionTime": instant(job.ordered),
        "request": job.request,
        "requiresAccessToken": job.authorized,
        "output": [{"type": name, "url": f"{address}{number}"} for number, name in enumerate(job.files)],
        "error": [],
    }
    return Response(200, [("Content-Type", "application/json")], json.dumps(manifest, indent=2).encode())


def file(context: RequestContext, kind: str, resource_id: str) -> Response:
    """One file of a finished export.

    Raises:
        FhirError: 404 for an unknown export or file.
    """
    _, job = _named(context, _exports(context))
    number = context.value("_file") or ""
    known = range(len(job.files)) if job.status == "done" else ()
    if not number.isascii() or not number.isdigit() or int(number) not in known:
        raise FhirError(404, f"The export does not contain the file {number}", "not-found")
    body = (job.folder / f"{int(number)}.ndjson").read_bytes()
    return Response(200, [("Content-Type", _NDJSON[0])], body)


def _exports(context: RequestContext) -> Exports:
    """The exports of the server. Raises FhirError if it offers none, as HAPI does."""
    if context.server.exports is None:
        raise unhandled(context.request.method, "/".join(context.segments), sorted(dict(context.pairs)))
    return context.server.exports


def _named(context: RequestContext, exports: Exports) -> tuple[str, Export]:
    export_id = context.value("_jobId") or ""
    job = exports.find(export_id)
    if job is None:
        problem = f"Unknown instance ID: {export_id}. Please check if the input job ID is valid."
        raise FhirError(404, f"HAPI-2040: {problem}")
    return export_id, job


def _patients(context: RequestContext, kind: str, resource_id: str) -> tuple[tuple[str, ...] | None, str]:
    """The patients that are exported (None: all), and the Group whose members they are."""
    if not resource_id:
        return None, ""
    resource = current(context, kind, resource_id).resource
    if kind == "Patient":
        return (resource_id,), ""
    members = [(member.get("entity") or {}).get("reference", "") for member in resource.get("member", ())]
    named = dict.fromkeys(member.removeprefix("Patient/") for member in members if member.startswith("Patient/"))
    return tuple(named), resource_id


def _types(arguments: Arguments) -> tuple[str, ...]:
    named = [name.strip() for key, value in arguments.texts() if key == "_type" for name in value.split(",")]
    for name in named:
        if not is_resource_type(name):
            raise FhirError(400, f"{_INVALID} Resource type {name} is not a supported resource type!")
    return tuple(dict.fromkeys(named)) or resource_types()


def _check_since(text: str) -> None:
    try:
        check_date(text)
    except PrimitiveError as error:
        raise FhirError(400, str(error)) from None
