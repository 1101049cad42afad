"""Every item of a finished run as one record: what was said as role and content, what came of it, what it cost.

The other forms are made of these records, so that they agree. Nothing is graded or written here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medagent.api import Code, LoadedRun, load_run
from medagent.benchmarks.base import Benchmark
from medagent.core.scrub import hide, remember_environment
from medagent.engine.journals import Run
from medagent.engine.report import ItemOutcome, Report
from medagent.engine.rows import Row, Spent
from medagent.reports.page.blocks import ChecksBlock, ItemDetail

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
    checks: Sequence[tuple[str, bool, str, str]]
    row: Row | None
    question: str = ""
    """What was asked, without the words around it; empty where the benchmark does not tell it apart."""

    @property
    def key(self) -> str:
        """The item's id, with its trial from the second on: `task5_7.2`."""
        return self.outcome.item if self.outcome.trial == 1 else f"{self.outcome.item}.{self.outcome.trial}"

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
            "checks": [
                {"name": name, "passed": passed, "expected": expected, "actual": actual}
                for name, passed, expected, actual in self.checks
            ],
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
    shown = loaded.benchmark.details(Run(loaded.path), report)
    details = {(one.item, one.trial): one for one in shown.items()}
    for outcome in report.items:
        detail = details.get((outcome.item, outcome.trial))
        row = detail.row if detail else None
        checks = (
            [check for block in detail.blocks if isinstance(block, ChecksBlock) for check in block.checks]
            if detail
            else []
        )
        question = hide(detail.question) if detail else ""
        yield Record(outcome, _said(loaded.benchmark, row, detail), checks, row, question)


def _said(benchmark: Benchmark, row: Row | None, detail: ItemDetail | None) -> list[Said]:
    """The messages; where the journal holds the reply alone, the question stands before it."""
    said = [] if row is None else benchmark.messages(row)
    found = [
        Said("assistant" if one.role in ASSISTANT else "user", hide(one.text), hide(one.reasoning or ""))
        for one in said
    ]
    if detail is not None and detail.question and (not found or found[0].role == "assistant"):
        found.insert(0, Said("user", hide(detail.question)))
    return found
