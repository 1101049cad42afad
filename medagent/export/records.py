"""Every item of a finished run as one record: what was said as role and content, what came of it, what it cost.

The other forms are made of these records, so that they agree. Nothing is graded or written here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from medagent.api import LoadedRun, load_run
from medagent.core.scrub import hide, remember_environment
from medagent.engine.benchmark import Benchmark
from medagent.engine.report import ItemOutcome, Report
from medagent.engine.rows import Row, Spent
from medagent.engine.scores import Check, Scored
from medagent.finished import Code

ASSISTANT = ("agent", "answer", "assistant")
"""The roles of messages that the agent wrote."""


@dataclass(frozen=True, slots=True)
class Said:
    """One message as training data has it: `role` is user or assistant."""

    role: str
    content: str
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """One item of one trial. `row` is its row of the journal, None where it was never begun."""

    outcome: ItemOutcome
    messages: Sequence[Said]
    checks: Sequence[Check]
    row: Row | None
    question: str = ""
    """What was asked, without the words around it."""
    scored: Scored | None = None
    """The unit with its score; None for a run whose data is missing."""

    @property
    def key(self) -> str:
        """The item's id, with its trial from the second on: `task5_7.2`."""
        return self.outcome.item if self.outcome.trial == 1 else f"{self.outcome.item}.{self.outcome.trial}"

    @property
    def cluster(self) -> str:
        """What items have in common that are not independent; else the item's id."""
        return (self.scored.item.cluster if self.scored else "") or self.outcome.item

    @property
    def spent(self) -> Spent:
        """What it cost."""
        return self.row.spent if self.row else Spent()

    def as_json(self, report: Report) -> dict[str, Any]:
        """The record as one flat object; every record of a run has the same fields, None where there is nothing."""
        one, spent = self.outcome, self.spent
        called = spent.calls > 0
        return {
            "benchmark": report.benchmark,
            "data": report.data.name,
            "data_version": report.data.version,
            "data_digest": report.data.digest,
            "agent": report.settings.get("agent"),
            "model": report.settings.get("model"),
            "item": one.item,
            "trial": one.trial,
            "group": one.group,
            "messages": [{"role": said.role, "content": said.content} for said in self.messages],
            "reasoning": [said.reasoning for said in self.messages],
            "status": one.status,
            "correct": one.correct,
            "score": one.score,
            "kind": one.kind,
            "reason": one.reason,
            "because": one.because,
            "grounded": one.grounded,
            "reading": one.reading,
            "checks": [asdict(check) for check in self.checks],
            "prompt_tokens": spent.prompt if called else None,
            "completion_tokens": spent.completion if called else None,
            "cost": spent.cost if called else None,
            "seconds": self.row.seconds if self.row else None,
        }


def read_records(folder: Path, code: Code | None = None) -> tuple[Report, Iterator[Record]]:
    """A run's report and its records, in the report's order. Raises UserError."""
    remember_environment(os.environ)
    loaded = load_run(folder, benchmark=code)
    report = loaded.report
    return report, _records(loaded, report)


def _records(loaded: LoadedRun, report: Report) -> Iterator[Record]:
    scores = {(one.item.id, one.trial): one for one in loaded.scores}
    rows = {row.unit: row for row in loaded.rows()}
    for outcome in report.items:
        scored = scores.get((outcome.item, outcome.trial))
        row = rows.get(scored.unit) if scored else None
        question = hide(scored.item.question) if scored else ""
        checks = scored.score.checks if scored and scored.score else ()
        yield Record(outcome, _messages(loaded.benchmark, row, question), checks, row, question, scored)


def _messages(benchmark: Benchmark[Any, Any], row: Row | None, question: str) -> list[Said]:
    """The messages; if the journal holds the reply alone, the question stands before it."""
    messages = [
        Said("assistant" if one.role in ASSISTANT else "user", hide(one.text), hide(one.reasoning or ""))
        for one in (() if row is None else benchmark.messages(row))
    ]
    if question and (not messages or messages[0].role == "assistant"):
        messages.insert(0, Said("user", question))
    return messages
