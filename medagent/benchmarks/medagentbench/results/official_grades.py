"""The verdicts of a copy of the official grader on results files, compared with those of this project."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medagent.benchmarks.medagentbench.results._official_grader import OfficialData, OfficialVerdict, official_verdicts
from medagent.benchmarks.medagentbench.settings import MedAgentBenchGrading
from medagent.benchmarks.medagentbench.tasks.dataset import Dataset
from medagent.core.errors import UserError
from medagent.engine.files import file_digest
from medagent.engine.report import ItemOutcome, TableLine, TableSection
from medagent.fhir_episodes.settings import server_headers
from medagent.reports.tables import named
from refsol.medagentbench import ResultItem


@dataclass(frozen=True, slots=True)
class OfficialGrades:
    """The verdicts of `file` by task id, one mapping per trial. `digest` is the SHA-256 of `file`."""

    file: Path
    digest: str
    verdicts: Sequence[Mapping[str, OfficialVerdict]]

    def section(self, items: Sequence[ItemOutcome]) -> TableSection:
        """A table of both verdicts by task type."""
        pairs = self._pairs(items)
        kinds = dict.fromkeys(item.group for item, _ in pairs)
        lines = [self._line(kind, [pair for pair in pairs if pair[0].group == kind]) for kind in kinds]
        title = f"Compared with {self.file.name} (digest {self.digest[:12]})"
        return TableSection(title=title, lines=(*lines, self._line("all", pairs)), name="MedAgentBench", count="items")

    def notes(self, items: Sequence[ItemOutcome]) -> list[str]:
        """Notes about items with different verdicts, without a verdict, and on which the file raised an error."""
        pairs = self._pairs(items)
        notes = []
        if differing := _differing(pairs):
            notes.append(f"Different verdicts by {self.file.name}: {named(differing)}")
        if silent := [(item.item, verdict.reason) for item, verdict in pairs if verdict.right is None]:
            notes.append(f"No verdict by {self.file.name}: {len(silent)} items, first {silent[0][0]}: {silent[0][1]}")
        if raised := [(item.item, verdict.reason) for item, verdict in pairs if verdict.reason.startswith("raised")]:
            notes.append(
                f"{self.file.name} raised an error on {len(raised)} items, which counts as wrong: first "
                f"{raised[0][0]}: {raised[0][1]}"
            )
        return notes

    def document(self, items: Sequence[ItemOutcome]) -> dict[str, Any]:
        """The same as JSON."""
        pairs = self._pairs(items)
        return {
            "file": str(self.file),
            "digest": self.digest,
            "right": sum(verdict.right is True for _, verdict in pairs),
            "wrong": sum(verdict.right is False for _, verdict in pairs),
            "differing": _differing(pairs),
            "items": [
                {"task_id": item.item, "correct": verdict.right, "reason": verdict.reason} for item, verdict in pairs
            ],
        }

    def _pairs(self, items: Sequence[ItemOutcome]) -> list[tuple[ItemOutcome, OfficialVerdict]]:
        unknown = OfficialVerdict(None, "unknown task id")
        return [(item, self.verdicts[item.trial - 1].get(item.item, unknown)) for item in items]

    def _line(self, name: str, pairs: Sequence[tuple[ItemOutcome, OfficialVerdict]]) -> TableLine:
        counts = {
            "right here": sum(item.correct is True for item, _ in pairs),
            "right there": sum(verdict.right is True for _, verdict in pairs),
            "no verdict there": sum(verdict.right is None for _, verdict in pairs),
            "differing": len(_differing(pairs)),
        }
        return TableLine(name=name, n=len(pairs), counts=counts)


def _differing(pairs: Sequence[tuple[ItemOutcome, OfficialVerdict]]) -> list[str]:
    return [item.item for item, verdict in pairs if {item.correct, verdict.right} == {True, False}]


def official_grades(
    source: MedAgentBenchGrading, dataset: Dataset, results: Sequence[tuple[int, ResultItem]]
) -> OfficialGrades:
    """Grade items, each with its trial, by the user's copy of the official grader. Raises UserError."""
    assert source.official is not None
    data = _data(source, dataset)
    tasks = {task.id: task.model_dump() for task in dataset.tasks}
    verdicts = []
    for trial in range(1, max((trial for trial, _ in results), default=0) + 1):
        items = {item.task_id: item for one, item in reversed(results) if one == trial and item.task_id in tasks}
        replies = official_verdicts(
            source.official, [(tasks[task_id], item) for task_id, item in items.items()], data, source.api_base
        )
        verdicts.append(dict(zip(items, replies, strict=True)))
    return OfficialGrades(source.official, file_digest(source.official), verdicts)


def _data(source: MedAgentBenchGrading, dataset: Dataset) -> OfficialData:
    from medagent.benchmarks.medagentbench.inventory import patients_file
    from medagent.fhir_data.embedded import imported_file

    if source.fhir is not None:
        return OfficialData(url=source.fhir, headers=server_headers([]))
    if source.ehr is not None:
        return OfficialData(imported_file(source.ehr).path)
    if (dataset.hospital or dataset.bundled) and source.key is None:
        return OfficialData(patients_file(dataset).path)
    raise UserError("--official needs patients, not an answer key: name them with --ehr FILE or --fhir URL")
