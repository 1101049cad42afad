"""A run in the format of Every Eval Ever (evaleval/every_eval_ever): one record of the evaluation, and one line for
each item and trial.

Facts without a field of their own are in `additional_details` and `metadata`, whose values are texts.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Mapping
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any

from medagent._finished import Code
from medagent.core.errors import UserError
from medagent.core.scrub import hide
from medagent.core.version import versions
from medagent.core.writing import write_whole, writing
from medagent.engine.report import Report
from medagent.export._records import Record, read_records
from medagent.fhir_episodes.episode import EpisodeRow

SCHEMA_VERSION = "0.3.0"
"""The version of the published schemas (August 2026)."""


def export_every_eval_ever(folder: Path, out: Path, code: Code | None = None) -> tuple[Path, Path]:
    """Write both files below `out`, in the places of a data store: `data/BENCHMARK/DEVELOPER/MODEL/UUID.json` and
    `UUID_samples.jsonl`. The same run always has the same UUID. Returns the paths. Raises UserError.
    """
    report, records = read_records(folder, code)
    if report.overall is None or report.overall.value is None:
        raise UserError(f"{folder}: {' '.join(report.notes) or 'it contains no graded item'}")
    first = next(records, None)
    model = _model(report, getattr(first.row, "model", None) if first else None)
    identity = f"{report.benchmark}/{model['id']}/{report.started}"
    source_digest = hashlib.sha256(f"{identity}/{report.journals}".encode()).digest()
    name = uuid.UUID(bytes=source_digest[:16], version=4)  # the schema accepts only this version
    developer, _, model_name = model["id"].partition("/")
    place = Path("data", report.benchmark, developer, model_name.replace("/", "--"))  # the depth of a path is fixed
    lines = [
        json.dumps(_sample(record, report, identity, model["id"]))
        for record in chain([first] if first else [], records)
        if record.outcome.value is not None
    ]
    if not lines:
        raise UserError(f"{folder}: it contains no graded item")
    samples = "".join(f"{line}\n" for line in lines)
    target = out / place
    with writing(target):
        target.mkdir(parents=True, exist_ok=True)
    log = _log(report, identity, model) | {
        "detailed_evaluation_results": {
            "format": "jsonl",
            "file_path": str(place / f"{name}_samples.jsonl"),
            "hash_algorithm": "sha256",
            "checksum": hashlib.sha256(samples.encode()).hexdigest(),
            "total_rows": len(lines),
        }
    }
    files = target / f"{name}.json", target / f"{name}_samples.jsonl"
    write_whole(files[0], json.dumps(log, indent=2) + "\n")
    write_whole(files[1], samples)
    return files


def _log(report: Report, identity: str, model: Mapping[str, Any]) -> dict[str, Any]:
    here = versions()
    return {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": identity,
        "evaluation_timestamp": report.started or None,
        "retrieved_timestamp": str(_epoch(report.ended or report.started)),
        "source_metadata": {
            "source_name": "medagent",
            "source_type": "evaluation_run",
            "source_organization_name": "unknown",
            "evaluator_relationship": "other",
        },
        "eval_library": {
            "name": "medagent",
            "version": report.versions.get("medagent") or here["medagent"],
            "additional_details": _texts({"commit": report.versions.get("commit"), "graded_by": here["medagent"]}),
        },
        "model_info": model,
        "evaluation_results": [_result(report)],
    }


def _result(report: Report) -> dict[str, Any]:
    overall, settings = report.overall, report.settings
    assert overall is not None
    bounds = overall.interval
    uncertainty: dict[str, Any] = {"num_samples": overall.n}
    if bounds is not None:
        uncertainty["confidence_interval"] = {"lower": bounds[0], "upper": bounds[1], "confidence_level": 0.95}
    arguments: dict[str, Any] = {}
    if isinstance(temperature := settings.get("temperature"), int | float):
        arguments["temperature"] = None if temperature < 0 else temperature
    if isinstance(tokens := settings.get("max-tokens"), int):
        arguments["max_tokens"] = tokens
    if isinstance(rounds := settings.get("max-rounds"), int):
        arguments["eval_limits"] = {"message_limit": rounds}
    return {
        "evaluation_result_id": f"{report.benchmark}/{report.figure}",
        "evaluation_name": report.benchmark,
        "source_data": {
            "dataset_name": " ".join(filter(None, (report.data.name, report.data.version))) or report.benchmark,
            "source_type": "other",
            "additional_details": _texts({"sha256": report.data.digest, "note": report.data.note}),
        },
        "metric_config": {
            "evaluation_description": f"The {report.figure} over all trials",
            "metric_name": report.figure,
            "metric_unit": "score" if report.measure == "score" else "proportion",
            "lower_is_better": False,
            "score_type": "continuous",
            "min_score": "-Infinity" if report.measure == "score" else 0.0,
            "max_score": "Infinity" if report.measure == "score" else 1.0,
        },
        "score_details": {
            "score": overall.value,
            "details": _texts(_facts(report)),
            "uncertainty": uncertainty,
        },
        "generation_config": {
            "generation_args": arguments,
            "additional_details": _texts(settings),
        },
    }


def _facts(report: Report) -> dict[str, Any]:
    """What a reader needs to know about the score."""
    overall, margin = report.overall, report.details.get("above_blind") or {}
    grounded = overall.grounded if overall else None
    injected = report.details.get("injected")
    trials = max((item.trial for item in report.items), default=1)
    return {
        "rules": report.rule_set,
        "loop": report.settings.get("loop"),
        "trials": trials,
        "complete": report.complete,
        "grounded": f"{grounded.right} of {grounded.n}" if grounded and grounded.n else None,
        "harmed": f"{injected['harmed']} of {injected['items']}" if injected else None,
        "above_blind": margin.get("difference"),
        "above_blind_interval_95": margin.get("interval_95"),
        **{f"digest_{name}": digest for name, digest in report.digests.items()},
    }


def _model(report: Report, answered: str | None) -> dict[str, Any]:
    """The model, or the agent of a run without one, or who gave the answers of a file. An id is `developer/model`."""
    agent = report.settings.get("agent")
    model = report.settings.get("model") or (None if agent else answered)
    name = str(model or agent or "unknown")
    portable = re.sub(r"[^\w./-]", "-", name if model else Path(name).name).strip("/.")
    return {
        "name": name,
        "id": portable if "/" in portable else f"unknown/{portable}",
        "additional_details": {
            "deployment_type": "unknown",
            "model_availability": "unknown",
            **_texts({"agent": agent, "served_as": report.model_spent.served}),
        },
    }


def _sample(record: Record, report: Report, identity: str, model: str) -> dict[str, Any]:
    outcome, spent = record.outcome, record.spent
    answer = next((message.content for message in reversed(record.messages) if message.role == "assistant"), "")
    question = record.question or outcome.item
    reference = _accepted(record)
    agentic = isinstance(record.row, EpisodeRow)
    source, place = ("messages[turn_idx].content", len(record.messages) - 1) if agentic else ("output.raw", 0)
    sample_hash = json.dumps({"raw": question, "reference": reference}, sort_keys=True, separators=(",", ":"))
    calls = sum(len(message.calls) for message in record.messages)
    return {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": identity,
        "model_id": model,
        "evaluation_name": report.benchmark,
        "evaluation_result_id": f"{report.benchmark}/{report.figure}",
        "sample_id": outcome.item,
        "sample_hash": hashlib.sha256(sample_hash.encode()).hexdigest(),
        "interaction_type": "agentic" if agentic else "single_turn",
        "input": {"raw": question, "reference": reference},
        "output": None if agentic else {"raw": [answer]},
        "messages": _messages(record) if agentic else None,
        "answer_attribution": [
            {
                "turn_idx": max(place, 0),
                "source": source,
                "extracted_value": answer,
                "extraction_method": "custom",
                "is_terminal": True,
            }
        ],
        "evaluation": {
            "score": outcome.value,
            "is_correct": outcome.correct if outcome.correct is not None else (outcome.value or 0) >= 1,
            "num_turns": len(record.messages),
            "tool_calls_count": calls,
        },
        "token_usage": {
            "input_tokens": spent.prompt,
            "output_tokens": spent.usage.output,
            "total_tokens": spent.usage.total,
        }
        if spent.calls
        else None,
        "performance": {"latency_ms": 1000 * record.row.seconds} if record.row and record.row.seconds else None,
        "error": record.row.error if record.row else None,
        "metadata": _texts(
            {
                "trial": outcome.trial,
                "group": outcome.group,
                "status": outcome.status,
                "kind": outcome.kind,
                "reason": outcome.reason,
                "because": outcome.because,
                "grounded": outcome.grounded,
                "harmed": outcome.harmed,
            }
        ),
    }


def _accepted(record: Record) -> list[str]:
    """The accepted answer, without the facts that decide."""
    scored = record.scored
    if scored is None or scored.score is None:
        return []
    return [scored.item.target] if scored.item.target else [hide(answer) for answer in scored.score.answers]


def _messages(record: Record) -> list[dict[str, Any]]:
    return [
        {
            "turn_idx": number,
            "role": message.role,
            "content": message.content,
            "reasoning_trace": message.reasoning or None,
            "tool_calls": [
                {"id": call.id, "name": call.name, "arguments": {"arguments": call.arguments}} for call in message.calls
            ]
            or None,
            "tool_call_id": [message.call_id] if message.call_id else None,
        }
        for number, message in enumerate(record.messages)
    ]


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    """The values as texts, without missing ones."""
    return {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in values.items()
        if value is not None and value not in ("", [])
    }


def _epoch(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp() if moment else 0.0
