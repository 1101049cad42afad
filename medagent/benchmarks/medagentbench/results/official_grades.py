"""What a copy of the official grader says of results files, beside the verdicts of this project."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medagent.benchmarks.medagentbench.results.official_grader import OfficialVerdict
from medagent.engine.report import ItemOutcome, TableLine, TableSection
from medagent.reports.tables import named


@dataclass(frozen=True, slots=True)
class OfficialGrades:
    """The verdicts of `file` by task id, one table a results file; `digest` is the file's SHA-256."""

    file: Path
    digest: str
    verdicts: Sequence[Mapping[str, OfficialVerdict]]

    def section(self, items: Sequence[ItemOutcome]) -> TableSection:
        """Both verdicts by task type."""
        pairs = self._pairs(items)
        kinds = dict.fromkeys(item.group for item, _ in pairs)
        lines = [self._line(kind, [pair for pair in pairs if pair[0].group == kind]) for kind in kinds]
        title = f"Beside {self.file.name} (digest {self.digest[:12]})"
        return TableSection(title=title, lines=(*lines, self._line("all", pairs)), name="MedAgentBench", count="items")

    def notes(self, items: Sequence[ItemOutcome]) -> list[str]:
        """The items that the two judge differently, and those without a verdict."""
        pairs = self._pairs(items)
        notes = []
        if differing := _differing(pairs):
            notes.append(f"Judged otherwise by {self.file.name}: {named(differing)}")
        if silent := [(item.item, said.reason) for item, said in pairs if said.right is None]:
            notes.append(f"No verdict by {self.file.name}: {len(silent)}, first {silent[0][0]}: {silent[0][1]}")
        if raised := [(item.item, said.reason) for item, said in pairs if said.reason.startswith("raised")]:
            notes.append(f"{self.file.name} raised on {len(raised)}, which is wrong: {raised[0][0]}: {raised[0][1]}")
        return notes

    def document(self, items: Sequence[ItemOutcome]) -> dict[str, Any]:
        """The same for programs."""
        pairs = self._pairs(items)
        return {
            "file": str(self.file),
            "digest": self.digest,
            "right": sum(said.right is True for _, said in pairs),
            "wrong": sum(said.right is False for _, said in pairs),
            "differing": _differing(pairs),
            "items": [{"task_id": item.item, "correct": said.right, "reason": said.reason} for item, said in pairs],
        }

    def _pairs(self, items: Sequence[ItemOutcome]) -> list[tuple[ItemOutcome, OfficialVerdict]]:
        unknown = OfficialVerdict(None, "unknown task id")
        return [(item, self.verdicts[item.trial - 1].get(item.item, unknown)) for item in items]

    def _line(self, name: str, pairs: Sequence[tuple[ItemOutcome, OfficialVerdict]]) -> TableLine:
        counts = {
            "right here": sum(item.correct is True for item, _ in pairs),
            "right there": sum(said.right is True for _, said in pairs),
            "no verdict there": sum(said.right is None for _, said in pairs),
            "differing": len(_differing(pairs)),
        }
        return TableLine(name=name, n=len(pairs), counts=counts)


def _differing(pairs: Sequence[tuple[ItemOutcome, OfficialVerdict]]) -> list[str]:
    return [item.item for item, said in pairs if {item.correct, said.right} == {True, False}]
