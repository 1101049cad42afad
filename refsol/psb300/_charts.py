"""All charts of a task set: saved as one document, and checked against the cut-off."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from refsol.json_values import as_object
from refsol.psb300._facts import Facts, Resource
from refsol.psb300.chart import Search
from refsol.psb300.grade import SEARCHES, task_type

_READ = (
    "resourceType",
    "id",
    "subject",
    "status",
    "code",
    "medicationCodeableConcept",
    "authoredOn",
    "effectiveDateTime",
    "performedDateTime",
    "performedPeriod",
    "valueQuantity",
)
"""The fields that rules and reasons read, in addition to `meta.lastUpdated`."""


@dataclass(frozen=True, slots=True)
class Stored:
    """How many resources of some tasks' charts count, because they were stored before the cut-off.

    `late` has the patients whose resources were all stored after it.
    """

    resources: int
    counting: int
    late: tuple[str, ...]

    @property
    def cut_off_applies(self) -> bool:
        """False if no resource would count although there are some: the data was loaded after the cut-off."""
        return self.counting > 0 or self.resources == 0


def save(tasks: Sequence[Mapping[str, Any]], facts: Facts) -> dict[str, Any]:
    """The resources that the rules may read for these tasks, as the document of `StoredFacts`. Raises FactsError."""
    searches = {
        (search, patient): facts.search(search.kind, patient, search.code, search.status)
        for patient, search in _searches(tasks)
    }
    return {
        "searches": [
            {
                "kind": search.kind,
                "patient": patient,
                "code": search.code,
                "status": search.status,
                "resources": [_slim(resource) for resource in resources],
            }
            for (search, patient), resources in searches.items()
        ]
    }


def stored(tasks: Sequence[Mapping[str, Any]], facts: Facts, cut_off: datetime) -> Stored:
    """Count the resources that the rules may read for these tasks, by the cut-off. Raises FactsError."""
    totals: dict[str, int] = {}
    counting: dict[str, int] = {}
    for patient, search in _searches(tasks):
        resources = facts.search(search.kind, patient, search.code, search.status)
        totals[patient] = totals.get(patient, 0) + len(resources)
        counting[patient] = counting.get(patient, 0) + sum(not _is_late(one, cut_off) for one in resources)
    late = tuple(patient for patient, count in totals.items() if count and not counting[patient])
    return Stored(sum(totals.values()), sum(counting.values()), late)


def _searches(tasks: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Search]]:
    """Each distinct pair of patient and search that the tasks need."""
    pairs = (
        (str(task["eval_MRN"]), search)
        for task in tasks
        if task.get("eval_MRN")
        for search in SEARCHES.get(task_type(task), ())
    )
    yield from dict.fromkeys(pairs)


def _slim(resource: Resource) -> dict[str, Any]:
    meta = as_object(resource.get("meta"))
    fields = {name: resource[name] for name in _READ if name in resource}
    stamp = {"lastUpdated": meta["lastUpdated"]} if "lastUpdated" in meta else {}
    return {**fields, "meta": stamp} if "meta" in resource else fields


def _is_late(resource: Resource, cut_off: datetime) -> bool:
    """Whether a resource was stored after the cut-off. False if its time is missing or cannot be read."""
    try:
        return datetime.fromisoformat(as_object(resource.get("meta"))["lastUpdated"]) > cut_off
    except (KeyError, TypeError, ValueError):
        return False
