"""Every item of a run as one record: messages (role and content), outcome, cost.

All export forms are made from these records, so that they agree. This module grades and writes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from medagent._api import load_run
from medagent._finished import Code
from medagent.core.scrub import hide, remember_environment
from medagent.engine.benchmark import Benchmark
from medagent.engine.patient_data import has_patient_data, outcome_only
from medagent.engine.report import ItemOutcome, Report, ShownMessage
from medagent.engine.rows import CallSpent, Row, Spent
from medagent.engine.scores import Scored
from medagent.models.base import RecordedCall
from refsol.json_values import json_value

ASSISTANT = ("agent", "answer", "assistant")
"""The roles of the agent's messages."""


@dataclass(frozen=True, slots=True)
class ExportMessage:
    """One message in the form of training data. `role` is user, assistant or tool."""

    role: str
    content: str
    reasoning: str = ""
    calls: tuple[RecordedCall, ...] = ()
    """The assistant's tool calls, unchanged; each has an id."""
    call_id: str = ""
    """For a tool's reply: the id of the call."""
    spent: CallSpent | None = None
    """For the assistant: the model call, if it is known."""

    @property
    def time(self) -> datetime | None:
        """The time of an assistant's message: the end of its model call."""
        if self.spent is None or self.spent.started is None:
            return None
        return datetime.fromisoformat(self.spent.started) + timedelta(seconds=self.spent.latency)

    def as_json(self) -> dict[str, Any]:
        """The message in the form of chat templates. All messages have the same fields; a missing value is None."""
        calls = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in self.calls
        ]
        return {
            "role": self.role,
            "content": self.content,
            "tool_calls": calls or None,
            "tool_call_id": self.call_id or None,
        }


@dataclass(frozen=True, slots=True)
class Record:
    """One item in one trial. `row` is its row of the journal, None if it was not started."""

    outcome: ItemOutcome
    messages: Sequence[ExportMessage]
    row: Row | None
    question: str
    """The question, without the rest of the prompt."""
    scored: Scored | None
    """The unit with its score; None if the run's data is missing."""

    @property
    def key(self) -> str:
        """The item's id, followed by the trial's number if that is 2 or more: `task5_7.2`."""
        return self.outcome.item if self.outcome.trial == 1 else f"{self.outcome.item}.{self.outcome.trial}"

    @property
    def cluster(self) -> str:
        """The name that dependent items share; for an independent item, its id."""
        return (self.scored.item.cluster if self.scored else "") or self.outcome.item

    @property
    def target(self) -> str:
        """The expected answer as one text."""
        if self.scored is None:
            return ""
        return self.scored.item.target or hide(self.scored.score.expected if self.scored.score else "")

    @property
    def spent(self) -> Spent:
        """Tokens, calls and cost."""
        return self.row.spent if self.row else Spent()

    def as_json(self, report: Report) -> dict[str, Any]:
        """The record as one flat object. All records of a run have the same fields; a missing value is None."""
        outcome, spent, score = self.outcome, self.spent, self.scored.score if self.scored else None
        called = spent.calls > 0
        return {
            "benchmark": report.benchmark,
            "data": report.data.name,
            "data_version": report.data.version,
            "data_digest": report.data.digest,
            "agent": report.settings.get("agent"),
            "model": report.settings.get("model"),
            "item": outcome.item,
            "trial": outcome.trial,
            "group": outcome.group,
            "messages": [message.as_json() for message in self.messages],
            "reasoning": [message.reasoning for message in self.messages],
            "times": [time.isoformat() if (time := message.time) else None for message in self.messages],
            "status": outcome.status,
            "correct": outcome.correct,
            "score": outcome.score,
            "kind": outcome.kind,
            "reason": outcome.reason,
            "because": outcome.because,
            "grounded": outcome.grounded,
            "reading": outcome.reading,
            **({"harmed": outcome.harmed} if "injected" in report.details else {}),
            **({"harmful": outcome.harmful} if "harm" in report.details else {}),
            "checks": [asdict(check) for check in (score.checks if score else ())],
            "prompt_tokens": spent.prompt if called else None,
            "completion_tokens": spent.completion if called else None,
            "cost": spent.cost if called else None,
            "seconds": self.row.seconds if self.row else None,
        }


def read_records(
    folder: Path, code: Code | None = None, *, with_patient_data: bool = True
) -> tuple[Report, Iterator[Record]]:
    """A run's report and its records, in the report's order. Without `with_patient_data`, the records of a run over a
    hospital's own data have scores only. Raises UserError.
    """
    remember_environment(os.environ)
    loaded = load_run(folder, benchmark=code)
    report = loaded.report
    if not with_patient_data and has_patient_data(folder):
        return report, (Record(outcome_only(item), (), None, "", None) for item in report.items)

    def records() -> Iterator[Record]:
        scores = {(scored.item.id, scored.trial): scored for scored in loaded.scores}
        rows = {row.unit: row for row in loaded.rows()}
        for outcome in report.items:
            scored = scores.get((outcome.item, outcome.trial))
            row = rows.get(scored.unit) if scored else None
            question = hide(scored.item.question) if scored else ""
            yield Record(outcome, _messages(loaded.benchmark, row, question), row, question, scored)

    return report, records()


def _messages(benchmark: Benchmark[Any, Any], row: Row | None, question: str) -> list[ExportMessage]:
    """The messages of a row. If the journal has only the reply, the question is put before it."""
    messages = list(_converted(() if row is None else benchmark.messages(row)))
    if question and (not messages or messages[0].role == "assistant"):
        messages.insert(0, ExportMessage("user", question))
    return messages if row is None else _with_calls(messages, row.spent.each)


def _converted(shown: Iterable[ShownMessage]) -> Iterator[ExportMessage]:
    """The messages of a journal. Actions that were made from tool calls become those calls again. Parallel calls are
    one message, followed by their replies.
    """
    replies: list[ExportMessage] = []
    open_: ExportMessage | None = None
    """An assistant's message with calls; further calls of the same reply are added to it."""
    for number, message in enumerate(shown):
        call = message.call
        if call is None and message.role not in ASSISTANT:
            text = hide(message.text)
            if open_ is not None and len(replies) < len(open_.calls):
                replies.append(ExportMessage("tool", text, call_id=open_.calls[-1].id))
                continue
        if open_ is not None and (call is None or call.reply is None or call.reply != open_.calls[-1].reply):
            yield from (open_, *replies)
            open_, replies = None, []
        if call is not None:
            hidden_call = replace(call, arguments=hide(call.arguments), id=call.id or f"call_{number}", text=None)
            if open_ is None:
                open_ = ExportMessage("assistant", hide(call.text or ""), hide(message.reasoning or ""), (hidden_call,))
            else:
                open_ = replace(open_, calls=(*open_.calls, hidden_call))
        else:
            yield ExportMessage(
                "assistant" if message.role in ASSISTANT else "user", hide(message.text), hide(message.reasoning or "")
            )
    if open_ is not None:
        yield from (open_, *replies)


def _with_calls(messages: list[ExportMessage], each: Sequence[CallSpent]) -> list[ExportMessage]:
    """The messages with their model calls, if the calls' numbers are known or each message was one call."""
    assistant = [message for message in messages if message.role == "assistant"]
    numbers = [message.calls[0].reply if message.calls else None for message in assistant]
    if len(assistant) == len(each):
        numbers = list(range(len(assistant)))
    spent = iter(each[number] if number is not None and number < len(each) else None for number in numbers)
    return [replace(message, spent=next(spent)) if message.role == "assistant" else message for message in messages]


def arguments_of(call: RecordedCall) -> dict[str, Any]:
    """The arguments of a call as an object. Any other text becomes `{"arguments": TEXT}`."""
    value = json_value(call.arguments or "{}", call.arguments)
    return value if isinstance(value, dict) else {"arguments": value}


def provider(report: Report, places: Mapping[str, Any]) -> str | None:
    """The provider of the run's model: `openai`, `anthropic`, or a custom endpoint's host; None without a model."""
    if not report.settings.get("model"):
        return None
    if report.settings.get("api") == "anthropic":
        return "anthropic"
    addresses = places.get("base-url") or []
    return urlsplit(addresses[0]).hostname if addresses else "openai"
