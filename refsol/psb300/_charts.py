"""All charts of a task set: saved as one document, and checked against the cut-off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from refsol.clinical.searches import Search
from refsol.clinical.sources import Resource, Source
from refsol.clinical.task_type import task_type
from refsol.errors import FactsError
from refsol.json_values import as_object
from refsol.psb300.types import TYPES

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


class StoredFacts:
    """A source of search results that `save` stored as JSON: `{"searches": [{"kind", "patient", …}]}`."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._results: dict[tuple[str | None, ...], Sequence[Resource]] = {
            (one["kind"], one["patient"], one.get("code"), one.get("status")): one["resources"]
            for one in document["searches"]
        }

    def search(self, kind: str, **query: str) -> Sequence[Resource]:
        """The saved result. Raises FactsError if this search was not saved."""
        patient = query["patient"]
        try:
            return self._results[kind, patient, query.get("code"), query.get("status")]
        except KeyError:
            raise FactsError(f"the saved facts do not contain the search for {kind} of patient {patient}") from None


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


def save(tasks: Sequence[Mapping[str, Any]], facts: Source) -> dict[str, Any]:
    """The resources that the rules may read for these tasks, as the document of `StoredFacts`. Raises FactsError."""
    return {
        "searches": [
            {
                "kind": search.kind,
                "patient": patient,
                "code": search.query.get("code"),
                "status": search.query.get("status"),
                "resources": [_slim(resource) for resource in resources],
            }
            for patient, search, resources in _found(tasks, facts)
        ]
    }


def stored(tasks: Sequence[Mapping[str, Any]], facts: Source, cut_off: datetime) -> Stored:
    """Count the resources that the rules may read for these tasks, by the cut-off. Raises FactsError."""
    totals, counting = Counter[str](), Counter[str]()
    for patient, _, resources in _found(tasks, facts):
        totals[patient] += len(resources)
        counting[patient] += sum(not _is_late(one, cut_off) for one in resources)
    late = tuple(patient for patient, count in totals.items() if count and not counting[patient])
    return Stored(totals.total(), counting.total(), late)


def _found(tasks: Sequence[Mapping[str, Any]], facts: Source) -> Iterator[tuple[str, Search, Sequence[Resource]]]:
    """Each distinct pair of patient and search that the tasks need, and what it finds."""
    known = [
        (task["eval_MRN"], TYPES[task_type(task)])
        for task in tasks
        if task.get("eval_MRN") and task_type(task) in TYPES
    ]
    for patient, search in dict.fromkeys((str(patient), search) for patient, kind in known for search in kind.searches):
        yield patient, search, facts.search(search.kind, patient=patient, **search.query)


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
