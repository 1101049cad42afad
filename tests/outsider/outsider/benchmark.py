"""Sums: a benchmark of single questions."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any

from medagent import (
    Benchmark,
    DataRef,
    Findings,
    ItemOutcome,
    Option,
    Plan,
    ReplyRow,
    Run,
    RunSettings,
    TableLine,
    TableSection,
)


class SumsSettings(RunSettings):
    """The options of `medagent run sums`."""

    largest: Annotated[int, Option("The sums", kind="value")] = 3
    """The largest number."""


class Sums(Benchmark):
    """Sums of two small numbers."""

    name = "sums"
    Settings = SumsSettings

    async def plan(self, settings: Any, say: Any) -> Plan:
        numbers = range(settings.largest + 1)
        prompts = {f"{a}+{b}": f"What is {a}+{b}? Answer with the number alone." for a in numbers for b in numbers}
        digest = hashlib.sha256("".join(prompts.values()).encode()).hexdigest()
        return self.single_turn(settings, prompts, DataRef(name="sums", digest=digest))

    def grade(self, run: Run) -> Findings:
        items = []
        for row in run.rows(ReplyRow):
            item, _, trial = row.unit.partition("#")
            right = None if row.owed else row.reply == str(sum(map(int, item.split("+"))))
            items.append(ItemOutcome(item=item, trial=int(trial or 1), correct=right, status=row.status))
        graded = [item.correct for item in items if item.correct is not None]
        share = sum(graded) / len(graded) if graded else None
        line = TableLine(name="all", n=len(graded), value=share)
        return Findings(table=[TableSection(lines=(line,))], overall=line, items=items, files=("report.json",))
