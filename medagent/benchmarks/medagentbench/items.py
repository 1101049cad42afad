"""MedAgentBench's tasks as items, and the data set of a source."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from medagent.benchmarks.medagentbench.agents.stated import stated_mrn
from medagent.benchmarks.medagentbench.settings import MedAgentBenchSettings
from medagent.benchmarks.medagentbench.tasks.dataset import Dataset, Task, load_dataset
from medagent.fhir_episodes.task import FhirItem


@dataclass(frozen=True, kw_only=True)
class TaskItem(FhirItem):
    """A task of a data set."""

    stored: Task
    dataset: Dataset = field(repr=False, compare=False)
    source: MedAgentBenchSettings = field(repr=False, compare=False)

    @property
    def record(self) -> Task:
        """See `FhirItem.record`."""
        return self.stored


def item_of(task: Task, dataset: Dataset, source: MedAgentBenchSettings) -> TaskItem:
    """Make an item of a task."""
    return TaskItem(
        id=task.id,
        group=task.type,
        cluster=task.type,
        question=task.instruction,
        context=task.context,
        mrn=stated_mrn(task.instruction),
        stored=task,
        dataset=dataset,
        source=source,
    )


def dataset_of(source: MedAgentBenchSettings) -> Dataset:
    """Load the data set of a source. Raises UserError."""
    return load_dataset(source.dataset, source.version)


def task_dicts(dataset: Dataset) -> list[dict[str, Any]]:
    """The tasks in the form that refsol reads."""
    return [task.model_dump() for task in dataset.tasks]
