"""A run as OpenTelemetry spans over OTLP/HTTP.

Each item is a span `invoke_agent`, with a child `chat` per model call and a child `execute_tool` per tool call. The
verdict is an event `gen_ai.evaluation.result` of the item's span.

The names follow the GenAI semantic conventions, which still change: open-telemetry/semantic-conventions-genai at commit
002c8a6ea1c8a42b14a4527db83b3cabcded610a. Spans have the arguments of tool calls, but no message texts.
"""

from __future__ import annotations

import hashlib
import json
import os
from base64 import b64encode
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from medagent._finished import Code
from medagent.core.errors import UserError
from medagent.core.scrub import error_text
from medagent.core.wire import split_credentials, without_password
from medagent.core.writing import followed, write_whole
from medagent.engine.folder import Run
from medagent.engine.report import Report
from medagent.engine.rows import CallSpent
from medagent.export._records import Record, provider, read_records

PROVIDER = "medagent"
"""The provider of an agent without a model."""
_CLIENT, _INTERNAL, _ERROR = 3, 1, 2
_IDS = ("traceId", "spanId", "parentSpanId")
_BATCH = 200
"""Items per request. Collectors accept about 4 MB."""


def export_otel(folder: Path, out: str, code: Code | None = None) -> int:
    """Send a run to an OTLP endpoint (`http://localhost:4318`), or write it to a file with one request per line.

    Returns the number of spans. Raises UserError if the endpoint does not reply or refuses the spans.
    """
    report, records = read_records(folder, code)
    served_by = provider(report, Run(folder).document.get("places", {})) or PROVIDER
    items = [list(_spans(report, record, served_by)) for record in records if record.row and record.row.started]
    requests = [_request(report, items[place : place + _BATCH]) for place in range(0, len(items), _BATCH)]
    if out.startswith(("http://", "https://")):
        for request in requests:
            _send(out, request)
    else:
        write_whole(followed(Path(out)), "".join(json.dumps(request) + "\n" for request in requests))
    return sum(map(len, items))


def _spans(report: Report, record: Record, served_by: str) -> Iterator[dict[str, Any]]:
    row, outcome = record.row, record.outcome
    assert row is not None
    begun, ended = _nanoseconds(row.started), _nanoseconds(row.timestamp)
    trace = _id(32, report.folder, record.key, row.started)
    parent = _id(16, trace, "agent")
    agent = str(report.settings.get("agent") or report.settings.get("protocol") or "chat")
    model = report.settings.get("model")
    common = {
        "gen_ai.conversation.id": record.key,
        "gen_ai.provider.name": served_by,
        "gen_ai.request.model": model,
    }
    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": agent,
        **common,
        "gen_ai.data_source.id": " ".join(filter(None, (report.data.name, report.data.version))),
        "gen_ai.usage.input_tokens": record.spent.prompt or None,
        "gen_ai.usage.output_tokens": record.spent.completion or None,
        "medagent.cost_usd": record.spent.cost,
        "medagent.group": outcome.group or None,
        "error.type": row.status if row.status != "completed" else None,
    }
    span = _span(trace, parent, f"invoke_agent {agent}", (begun, ended), _INTERNAL, attributes)
    yield span | ({"events": [_evaluation(report, record, ended)]} if outcome.value is not None else {})
    for number, (call, at, until) in enumerate(_timed(row.spent.each, begun, ended)):
        fields = {
            "gen_ai.operation.name": "chat",
            **common,
            "gen_ai.usage.input_tokens": call.prompt,
            "gen_ai.usage.output_tokens": call.completion,
            "gen_ai.usage.cache_read.input_tokens": call.cached,
            "gen_ai.usage.reasoning.output_tokens": call.reasoning or None,
            "gen_ai.response.finish_reasons": [call.finish_reason] if call.finish_reason else None,
            "medagent.cost_usd": call.cost,
            "medagent.retries": call.retries,
        }
        name = f"chat {model or ''}".strip()
        yield _span(trace, _id(16, trace, str(number)), name, (at, until), _CLIENT, fields, parent)
    yield from _tools(record, trace, parent, begun)


def _timed(each: Sequence[CallSpent], begun: int, ended: int) -> Iterator[tuple[CallSpent, int, int]]:
    """The model calls with start and end. Calls of a model that states no times are put one after the other."""
    at = begun
    for call in each:
        at = _nanoseconds(call.started) if call.started else at
        until = at + int(call.latency * 1e9)
        yield call, at, until if call.started else min(until, ended)
        at = until


def _tools(record: Record, trace: str, parent: str, begun: int) -> Iterator[dict[str, Any]]:
    """The tool calls, each at the end of its model call."""
    at, number = begun, 0
    for message in record.messages:
        at = int(message.time.timestamp() * 1_000_000) * 1000 if message.time else at
        for call in message.calls:
            number += 1
            fields = {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.conversation.id": record.key,
                "gen_ai.tool.name": call.name,
                "gen_ai.tool.type": "function",
                "gen_ai.tool.call.id": call.id,
                "gen_ai.tool.call.arguments": call.arguments,
            }
            span = _id(16, trace, "tool", str(number))
            yield _span(trace, span, f"execute_tool {call.name}", (at, at), _INTERNAL, fields, parent)


def _evaluation(report: Report, record: Record, at: int) -> dict[str, Any]:
    """The verdict on an item, as an event of its span."""
    outcome = record.outcome
    fields = {
        "gen_ai.evaluation.name": report.benchmark,
        "gen_ai.evaluation.score.value": None if outcome.value is None else float(outcome.value),
        "gen_ai.evaluation.score.label": {True: "right", False: "wrong", None: None}[outcome.correct],
        "gen_ai.evaluation.explanation": outcome.reason or None,
        "medagent.failure_kind": outcome.kind or None,
        "medagent.grounded": outcome.grounded,
        "medagent.harmed": outcome.harmed,
    }
    return {"timeUnixNano": str(at), "name": "gen_ai.evaluation.result", "attributes": _attributes(fields)}


def _span(
    trace: str, span: str, name: str, times: tuple[int, int], kind: int, fields: dict[str, Any], parent: str = ""
) -> dict[str, Any]:
    span_fields = {
        "traceId": trace,
        "spanId": span,
        "name": name,
        "kind": kind,
        "startTimeUnixNano": str(times[0]),
        "endTimeUnixNano": str(max(times)),
        "attributes": _attributes(fields),
    }
    span_fields |= {"parentSpanId": parent} if parent else {}
    return span_fields | (
        {"status": {"code": _ERROR, "message": str(fields["error.type"])}} if fields.get("error.type") else {}
    )


def _attributes(fields: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": name, "value": _value(value)} for name, value in fields.items() if value is not None]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_value(element) for element in value]}}
    return {"doubleValue": value} if isinstance(value, float) else {"stringValue": str(value)}


def _request(report: Report, items: list[list[dict[str, Any]]]) -> dict[str, Any]:
    version = report.versions.get("medagent", "")
    resource = _attributes({"service.name": "medagent", "service.version": version})
    spans = [span for item in items for span in item]
    scope = {"scope": {"name": "medagent", "version": version}, "spans": spans}
    return {"resourceSpans": [{"resource": {"attributes": resource}, "scopeSpans": [scope]}]}


def _send(endpoint: str, request: dict[str, Any]) -> None:
    """Send a request as protobuf, which some servers require, if the extra `otel` is installed; otherwise as JSON."""
    import httpx

    address, credentials = split_credentials(endpoint)
    url = address.rstrip("/") if address.rstrip("/").endswith("/v1/traces") else f"{address.rstrip('/')}/v1/traces"
    shown = without_password(url)
    packed = _protobuf(request)
    body = json.dumps(request).encode() if packed is None else packed
    headers = {**_headers(), "content-type": "application/json" if packed is None else "application/x-protobuf"}
    try:
        answer = httpx.post(url, content=body, headers=headers, auth=credentials, timeout=60)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise UserError(f"{shown}: no reply: {error_text(str(error) or type(error).__name__)}") from None
    if answer.status_code >= 300:
        more = "; it may require protobuf: pip install 'medagent[otel]'" if packed is None else ""
        raise UserError(f"{shown}: status {answer.status_code}: {error_text(answer.text)}{more}")


def _headers() -> dict[str, str]:
    """The headers in OTEL_EXPORTER_OTLP_HEADERS: `name=value`, separated by commas, values quoted as in a URL."""
    pairs = (pair.partition("=") for pair in os.environ.get("OTEL_EXPORTER_OTLP_HEADERS", "").split(",") if pair)
    return {name.strip().lower(): unquote(value.strip()) for name, _, value in pairs}


def _protobuf(request: dict[str, Any]) -> bytes | None:
    """A request as protobuf; None without the extra. Ids are hexadecimal in OTLP's JSON, base64 in protobuf's JSON."""
    try:
        from google.protobuf.json_format import ParseDict
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    except ImportError:
        return None
    message = ParseDict(_with_base64_ids(request), ExportTraceServiceRequest())
    packed: bytes = message.SerializeToString()
    return packed


def _with_base64_ids(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_base64_ids(element) for element in value]
    if not isinstance(value, dict):
        return value
    return {
        name: b64encode(bytes.fromhex(member)).decode() if name in _IDS else _with_base64_ids(member)
        for name, member in value.items()
    }


def _id(length: int, *parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:length]


def _nanoseconds(time: str) -> int:
    return int(datetime.fromisoformat(time).timestamp() * 1_000_000) * 1000
