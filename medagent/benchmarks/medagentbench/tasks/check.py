"""Checks a user's own task file. Has the JSON schema of such files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from medagent.benchmarks.medagentbench.tasks.dataset import Dataset, Task, load_tasks_file


@dataclass(frozen=True, slots=True)
class CheckedTasks:
    """A valid task file, with warnings."""

    dataset: Dataset
    warnings: tuple[str, ...]

    @property
    def types(self) -> dict[str, int]:
        """How many tasks each type has, in the order of the file."""
        return dict(Counter(task.type for task in self.dataset.tasks))


def check_tasks(path: Path) -> CheckedTasks:
    """Check a task file. Raises UserError with all problems that make it unusable."""
    dataset = load_tasks_file(path)
    return CheckedTasks(dataset, tuple(_warnings(dataset)))


def schema() -> dict[str, Any]:
    """The JSON schema of a task file."""
    form = TypeAdapter(tuple[Task, ...]).json_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A task file of MedAgentBench",
        **form,
    }


def _warnings(dataset: Dataset) -> Iterator[str]:
    for number, task in enumerate(dataset.tasks):
        place = f"[{number}] {task.id!a}"
        if task.type == "task1" and task.sol is None:
            yield f"{place}: has no sol, so it cannot be graded"
        if task.type != "task1" and not task.eval_MRN:
            yield f"{place}: has no eval_MRN, so it cannot be graded"
        if not task.instruction.strip():
            yield f"{place}: has an empty instruction"
