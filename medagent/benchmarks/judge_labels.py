"""Compares labels by judges and people: from a judged run, another tool's output, or a file that people labelled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medagent.benchmarks.base import installed, of_folder
from medagent.benchmarks.judge_check import judged_benchmark
from medagent.core.errors import UserError
from medagent.engine.folder import Run
from medagent.judging.benchmark import JudgedBenchmark
from medagent.judging.judging import Judging
from refsol.agreement import Agreement, Labelled, compare, read_labels


@dataclass(frozen=True, slots=True)
class Place:
    """`PATH` or `PATH@JUDGE` of a command line."""

    path: Path
    judge: str | None

    @classmethod
    def of(cls, text: str) -> Place:
        """Split a text into path and judge. Both may contain `@`. Raises UserError if the file does not exist."""
        for end in [len(text), *(n for n, character in enumerate(text) if character == "@")]:
            if end and Path(text[:end]).exists():
                return cls(Path(text[:end]), text[end + 1 :] or None)
        raise UserError(f"{text}: no such file or folder")

    def chosen(self, judges: Sequence[str]) -> str:
        """The named judge, or the only one in `judges`. Raises UserError."""
        if self.judge is not None and self.judge not in judges:
            raise UserError(f"{self.path}: unknown judge {self.judge}; its judges: {', '.join(judges) or 'none'}")
        if self.judge is None and len(judges) > 1:
            raise UserError(f"{self.path}: contains several judges; name one as {self.path}@JUDGE: {', '.join(judges)}")
        if not judges:
            raise UserError(
                f"{self.path}: contains no labels of a judge; label its answers with `medagent judge` first"
            )
        return self.judge or judges[0]


def agreement(first: str, second: str, rule: str = "", code: str | None = None) -> Agreement:
    """Compare two sets of labels.

    `rule` reads the judges' replies; if it is empty, the rule of the run does. `code` is the benchmark of runs whose
    benchmark is not installed. Raises UserError, InputError.
    """
    places = [Place.of(text) for text in (first, second)]
    judged = [_judged(place, rule, code) for place in places]
    known = next((labels for _, labels in filter(None, judged)), ())
    first_labels, second_labels = (
        read_labels(place.path, known) if labels is None else labels[0]
        for place, labels in zip(places, judged, strict=True)
    )
    return compare(first_labels, second_labels)


def _judged(place: Place, rule: str, code: str | None) -> tuple[Sequence[Labelled], Sequence[str]] | None:
    """The labels of a judge, and all labels of its benchmark. None for a file that people labelled."""
    if (place.path / "run.json").is_file():
        benchmark = judged_benchmark(of_folder(place.path, code))
        return _of_run(benchmark, place, rule), benchmark.rubric.labels
    for judged in installed():
        if isinstance(judged, JudgedBenchmark) and (by_judge := judged.rubric.recorded(place.path, rule)):
            return by_judge[place.chosen(sorted(by_judge))], judged.rubric.labels
    if not place.path.is_file():
        raise UserError(f"{place.path}: neither a judged run, nor another tool's judged output, nor a file of labels")
    return None


def _of_run(benchmark: JudgedBenchmark[Any, Any], place: Place, rule: str) -> list[Labelled]:
    run = Run(place.path)
    judging = Judging(run.path, benchmark.rubric)
    judge, labels = place.chosen(judging.judges()), benchmark.rubric.labels
    decisions = [
        (decision.subject, decision.judged.labels.get(judge))
        for decision in judging.decisions(benchmark.subjects(run), judge, rule)
    ]
    return [Labelled(subject.unit, label if label in labels else None, subject.ids) for subject, label in decisions]
