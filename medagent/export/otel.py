"""A run as OpenTelemetry spans: `invoke_agent` for each item, a `chat` below it for each model call; OTLP/HTTP in JSON.

Names are those of the GenAI semantic conventions; they stand in one table, since the conventions still change. What was
said is left out: spans carry figures, and go to servers that many people read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from medagent.core.errors import UserError
from medagent.core.scrub import error_text
from medagent.core.wire import split_credentials, without_password
from medagent.engine.files import write_whole
from medagent.engine.report import Report
from medagent.export.records import Record, read_records
from medagent.finished import Code

NAMES = {
    "operation": "gen_ai.operation.name",
    "agent": "gen_ai.agent.name",
    "model": "gen_ai.request.model",
    "data": "gen_ai.data_source.id",
    "conversation": "gen_ai.conversation.id",
    "input": "gen_ai.usage.input_tokens",
    "output": "gen_ai.usage.output_tokens",
    "cached": "gen_ai.usage.cache_read.input_tokens",
    "score": "gen_ai.evaluation.score.value",
    "label": "gen_ai.evaluation.score.label",
    "explanation": "gen_ai.evaluation.explanation",
    "error": "error.type",
    "cost": "medagent.cost_usd",
    "retries": "medagent.retries",
    "group": "medagent.group",
    "kind": "medagent.failure_kind",
    "grounded": "medagent.grounded",
}
"""Ours, and the name in a span."""
_CLIENT, _INTERNAL, _ERROR = 3, 1, 2
_BATCH = 200
"""Spans' items in one request: collectors take about 4 MB."""


def export_otel(folder: Path, out: str, code: Code | None = None) -> int:
    """Send a run to an OTLP endpoint (`http://localhost:4318`), or write it to a file, a request a line.

    Returns the number of spans. Raises UserError where nothing answers, or what answers refuses.
    """
    report, records = read_records(folder, code)
    items = [list(_spans(report, record)) for record in records if record.row is not None and record.row.started]
    requests = [_request(report, items[place : place + _BATCH]) for place in range(0, len(items), _BATCH)]
    if out.startswith(("http://", "https://")):
        for request in requests:
            _send(out, request)
    else:
        write_whole(Path(out), "".join(json.dumps(request) + "\n" for request in requests))
    return sum(map(len, items))


def _spans(report: Report, record: Record) -> Iterator[dict[str, Any]]:
    row, one = record.row, record.outcome
    assert row is not None
    begun, ended = _nanoseconds(row.started), _nanoseconds(row.timestamp)
    trace = _id(32, report.folder, record.key, row.started)
    parent = _id(16, trace, "agent")
    agent = str(report.settings.get("agent") or report.settings.get("protocol") or "chat")
    common = {"model": report.settings.get("model"), "conversation": record.key}
    said = {
        "operation": "invoke_agent",
        "agent": agent,
        **common,
        "data": " ".join(filter(None, (report.data.name, report.data.version))),
        "input": record.spent.prompt or None,
        "output": record.spent.completion or None,
        "cost": record.spent.cost,
        "group": one.group or None,
        "score": one.value,
        "label": {True: "right", False: "wrong", None: None}[one.correct],
        "explanation": one.reason or None,
        "kind": one.kind or None,
        "grounded": one.grounded,
        "error": row.status if row.status != "completed" else None,
    }
    yield _span(trace, parent, "", f"invoke_agent {agent}", begun, ended, _INTERNAL, said)
    at = begun
    for number, call in enumerate(row.spent.each):
        # The journal has how long each call took, not when it began: they are laid one after the other.
        until = min(at + int(call.latency * 1e9), ended)
        figures = {"input": call.prompt, "output": call.completion, "cached": call.cached, "cost": call.cost}
        fields = {"operation": "chat", **common, **figures, "retries": call.retries}
        name = f"chat {common['model'] or ''}".strip()
        yield _span(trace, _id(16, trace, str(number)), parent, name, at, until, _CLIENT, fields)
        at = until


def _span(
    trace: str, span: str, parent: str, name: str, begun: int, ended: int, kind: int, fields: dict[str, Any]
) -> dict[str, Any]:
    found = {
        "traceId": trace,
        "spanId": span,
        "name": name,
        "kind": kind,
        "startTimeUnixNano": str(begun),
        "endTimeUnixNano": str(max(begun, ended)),
        "attributes": [_attribute(NAMES[key], value) for key, value in fields.items() if value is not None],
    }
    found |= {"parentSpanId": parent} if parent else {}
    return found | ({"status": {"code": _ERROR, "message": str(fields["error"])}} if fields.get("error") else {})


def _attribute(name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"key": name, "value": {"boolValue": value}}
    if isinstance(value, int):
        return {"key": name, "value": {"intValue": str(value)}}
    return {"key": name, "value": {"doubleValue": value} if isinstance(value, float) else {"stringValue": str(value)}}


def _request(report: Report, items: list[list[dict[str, Any]]]) -> dict[str, Any]:
    version = report.versions.get("medagent", "")
    resource = [_attribute("service.name", "medagent"), _attribute("service.version", version)]
    spans = [span for item in items for span in item]
    scope = {"scope": {"name": "medagent", "version": version}, "spans": spans}
    return {"resourceSpans": [{"resource": {"attributes": resource}, "scopeSpans": [scope]}]}


def _send(endpoint: str, request: dict[str, Any]) -> None:
    import httpx

    address, credentials = split_credentials(endpoint)
    url = address.rstrip("/") if address.rstrip("/").endswith("/v1/traces") else f"{address.rstrip('/')}/v1/traces"
    shown = without_password(url)
    try:
        answer = httpx.post(url, json=request, auth=credentials, timeout=60)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise UserError(f"{shown}: no answer: {error_text(str(error) or type(error).__name__)}") from None
    if answer.status_code >= 300:
        raise UserError(f"{shown}: status {answer.status_code}: {error_text(answer.text)}")


def _id(length: int, *parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:length]


def _nanoseconds(time: str) -> int:
    return int(datetime.fromisoformat(time).timestamp() * 1_000_000) * 1000
