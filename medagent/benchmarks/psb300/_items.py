"""The tasks of psb-300 as items."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from medagent.benchmarks.psb300.settings import Psb300Settings
from medagent.benchmarks.psb300.tasks import Task, TaskSet, load_tasks
from medagent.fhir_episodes.task import FhirItem
from refsol.psb300 import stated_now


@dataclass(frozen=True, kw_only=True)
class ChartItem(FhirItem):
    """A task of psb-300."""

    stored: Task

    @property
    def record(self) -> Task:
        return self.stored


def item_of(task: Task, default_now: datetime) -> ChartItem:
    """Make an item of a task. `default_now` is used if its context states no time."""
    return ChartItem(
        id=task.id,
        group=task.type,
        cluster=task.twin or task.type,
        pair=task.twin,
        change=task.amendment,
        injected=task.injected,
        question=task.instruction,
        context=task.context,
        mrn=task.mrn,
        now=stated_now(task.context) or default_now,
        stored=task,
    )


def task_set_of(source: Psb300Settings) -> TaskSet:
    """Load the tasks of a source. Raises UserError."""
    return load_tasks(source.dataset, source.split)
