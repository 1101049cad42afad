"""Trajectories in the Agent Trajectory Interchange Format, version 1.8 (Harbor's RFC 0001): one JSON file per episode.

Each message of the agent is a step. Its tool calls are those of the model, or GET, POST and FINISH in the text
protocol. The reply is the step's observation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from medagent._finished import Code
from medagent.core.errors import UserError
from medagent.core.scrub import safe_name
from medagent.core.writing import write_whole
from medagent.engine.report import Report
from medagent.engine.rows import CallSpent
from medagent.export._records import Record, arguments_of, read_records
from refsol.json_values import json_value

VERSION = "ATIF-v1.8"
_ACTION = re.compile(r"(GET|POST|PUT|PATCH|DELETE)\s+(\S+)\s*(.*)", re.DOTALL)
_FINISH = re.compile(r"FINISH\((.*)\)\s*\Z", re.DOTALL)


def export_atif(folder: Path, out: Path, code: Code | None = None) -> int:
    """Write one file per episode into a folder, which is made if needed. Returns their number. Raises UserError.

    An item without messages has no trajectory.
    """
    report, records = read_records(folder, code)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{out}: cannot be made: {error.strerror}") from None
    written = 0
    for record in records:
        if record.messages:
            document = trajectory(report, record)
            write_whole(out / f"{safe_name(record.key)}.json", json.dumps(document, indent=1) + "\n")
            written += 1
    return written


def trajectory(report: Report, record: Record) -> dict[str, Any]:
    """One episode as an ATIF document."""
    outcome, settings = record.outcome, report.settings
    model = settings.get("model")
    return _known(
        schema_version=VERSION,
        session_id=f"{report.folder}:{record.key}",
        trajectory_id=record.key,
        agent=_known(
            name=str(settings.get("agent") or f"medagent {settings.get('protocol') or 'chat'}"),
            version=report.versions.get("medagent", "unknown"),
            model_name=model,
        ),
        steps=list(_steps(record, model is not None)),
        final_metrics=_final(record),
        extra=_known(
            benchmark=report.benchmark,
            data=report.data.model_dump(),
            item=outcome.item,
            trial=outcome.trial,
            status=outcome.status,
            correct=outcome.correct,
            score=outcome.score,
            kind=outcome.kind or None,
            grounded=outcome.grounded,
            harmed=outcome.harmed,
            reason=outcome.reason,
        ),
    )


def _steps(record: Record, has_model: bool) -> Iterator[dict[str, Any]]:
    number, place = 0, 0
    while place < len(record.messages):
        message = record.messages[place]
        number, place = number + 1, place + 1
        if message.role != "assistant":
            yield {"step_id": number, "source": "user", "message": message.content}
            continue
        tools = [
            {"tool_call_id": call.id, "function_name": call.name, "arguments": arguments_of(call)}
            for call in message.calls
        ] or _tool_calls(message.content, number)
        results = []
        for following in record.messages[place : place + max(1, len(message.calls))]:
            if following.role == "assistant" or (message.calls and following.role != "tool"):
                break
            place += 1  # the reply is this step's observation, not another step
            source = following.call_id or (tools[0]["tool_call_id"] if tools else None)
            results.append(_known(source_call_id=source, content=following.content))
        llm_calls: int | None = 1 if message.spent else 0
        if not message.spent and (has_model or message.reasoning):
            llm_calls = None
        yield _known(
            step_id=number,
            timestamp=message.time.isoformat() if message.time else None,
            source="agent",
            message=message.content,
            reasoning_content=message.reasoning or None,
            tool_calls=tools or None,
            observation={"results": results} if results else None,
            metrics=_metrics(message.spent) if message.spent else None,
            llm_call_count=llm_calls,
        )


def _tool_calls(text: str, number: int) -> list[dict[str, Any]]:
    """The action of a message in the text protocol; empty for any other text."""
    action, finish = _ACTION.match(text.strip()), _FINISH.match(text.strip())
    if action:
        name, arguments = action[1], {"url": action[2]}
        arguments |= {"body": json_value(action[3], action[3])} if action[3] else {}
    elif finish:
        name, arguments = "FINISH", {"answers": json_value(finish[1], finish[1])}
    else:
        return []
    return [{"tool_call_id": f"call_{number}", "function_name": name, "arguments": arguments}]


def _metrics(call: CallSpent) -> dict[str, Any]:
    return _known(
        prompt_tokens=call.prompt,
        completion_tokens=call.completion,
        cached_tokens=call.cached,
        cost_usd=call.cost,
        extra={"seconds": call.latency, "retries": call.retries},
    )


def _final(record: Record) -> dict[str, Any] | None:
    spent = record.spent
    if not spent.calls:
        return None
    return _known(
        total_prompt_tokens=spent.prompt,
        total_completion_tokens=spent.completion,
        total_cached_tokens=spent.cached,
        total_cost_usd=spent.cost,
    )


def _known(**fields: Any) -> dict[str, Any]:
    """The fields that are not None: the format does not allow null."""
    return {name: value for name, value in fields.items() if value is not None}
