"""All charts of a task set, checked against the cut-off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from refsol.clinical.sources import Resource, Source
from refsol.clinical.task_type import task_type
from refsol.json_values import as_object
from refsol.psb300.types import TYPES


class Stored(NamedTuple):
    """How many resources of some tasks' charts count, because they were stored before the cut-off.

    `late` lists the patients whose resources were all stored after it.
    """

    resources: int
    counting: int
    late: tuple[str, ...]

    @property
    def cut_off_applies(self) -> bool:
        """False if no resource would count although there are some: the data was loaded after the cut-off."""
        return self.counting > 0 or self.resources == 0


def stored(tasks: Sequence[Mapping[str, Any]], facts: Source, cut_off: datetime) -> Stored:
    """Count the resources that the rules may read for these tasks, by the cut-off. Raises FactsError."""
    totals, counting = Counter[str](), Counter[str]()
    for patient, resources in _results(tasks, facts):
        totals[patient] += len(resources)
        counting[patient] += sum(not _is_late(resource, cut_off) for resource in resources)
    late = tuple(patient for patient, count in totals.items() if count and not counting[patient])
    return Stored(totals.total(), counting.total(), late)


def _results(tasks: Sequence[Mapping[str, Any]], facts: Source) -> Iterator[tuple[str, Sequence[Resource]]]:
    """For each distinct pair of patient and search that the tasks need, the patient and the matches."""
    known = [
        (task["eval_MRN"], TYPES[task_type(task)])
        for task in tasks
        if task.get("eval_MRN") and task_type(task) in TYPES
    ]
    for patient, search in dict.fromkeys((str(patient), search) for patient, kind in known for search in kind.searches):
        yield patient, facts.search(search.kind, patient=patient, **search.query)


def _is_late(resource: Resource, cut_off: datetime) -> bool:
    """Whether a resource was stored after the cut-off. False if its time is missing or cannot be read."""
    try:
        return datetime.fromisoformat(as_object(resource.get("meta"))["lastUpdated"]) > cut_off
    except (KeyError, TypeError, ValueError):
        return False
