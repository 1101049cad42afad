"""`reads.jsonl`: the searches that the rules of a set's tasks make, with their results, to grade offline.

Each line is `{"search": "Observation?patient=S1&code=K", "resources": […]}`. The rules of a published benchmark do not
change, so the file needs only what decides: of each resource the elements that rules and reasons read, and no resource
that no rule used. The rules of a user's own file may be corrected later, so all results are complete.

A line with `"example"` instead of `"search"` contains examples of what a search looks for in this hospital: whether an
agent could know an answer is decided over charts with one more of them (`clinical.neighbours`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode

from refsol.clinical.chart import Chart
from refsol.clinical.examples import learned_examples
from refsol.clinical.neighbours import Examples, example_name
from refsol.clinical.pairs import Case
from refsol.clinical.sources import Amendment, Resource, Source
from refsol.clinical.task_type import UngradableError
from refsol.clinical.twins import changed
from refsol.errors import DataFault, FactsError, InputError
from refsol.json_values import as_object, json_value, objects

READS = "reads.jsonl"
Results = Mapping[str, Sequence[Resource]]
"""The resources that searches return, by `Observation?patient=12&code=2823-3`."""
_EXAMPLE = "example "
"""Begins the names of examples among results."""
_DECIDING = (
    *("resourceType", "id", "identifier", "name", "gender", "birthDate", "subject", "patient", "status"),
    *("clinicalStatus", "category", "code", "medicationCodeableConcept", "vaccineCode", "authoredOn"),
    *("effectiveDateTime", "occurrenceDateTime", "performedDateTime", "performedPeriod", "onsetDateTime", "period"),
    "valueQuantity",
)
"""The elements that the rules of published benchmarks and their reasons read, in addition to `meta.lastUpdated`."""


class RecordedSource:
    """A source with recorded results. For a search without a result it raises `unknown` of it."""

    def __init__(self, results: Results, unknown: Callable[[str], BaseException]) -> None:
        self.results = results
        self._unknown = unknown
        self.used: dict[str, Sequence[Resource]] = {}
        """The results that rules have needed."""

    @classmethod
    def of_file(cls, path: Path) -> RecordedSource:
        """The results in a file. Raises InputError."""
        return cls(read_results(path), lambda search: not_recorded(path, search))

    @property
    def examples(self) -> dict[str, Sequence[Resource]]:
        """The examples, by `neighbours.example_name`."""
        named = self.results.items()
        return {name.removeprefix(_EXAMPLE): resources for name, resources in named if name.startswith(_EXAMPLE)}

    def search(self, kind: str, **query: str) -> Sequence[Resource]:
        name = search_name(kind, query)
        if name not in self.results:
            raise self._unknown(name)
        self.used[name] = self.results[name]
        return self.results[name]


def search_name(kind: str, query: Mapping[str, str]) -> str:
    """A search as text: `Observation?patient=12&code=2823-3`."""
    return f"{kind}?{urlencode(query)}"


def not_recorded(path: Path, search: str) -> FactsError:
    """The error for a search that a file does not contain. It shows only the type, since a search identifies a
    patient.
    """
    return FactsError(
        f"{path}: does not contain the result of a search of {search.partition('?')[0]}: the rule or the tasks have "
        "changed; make the set again"
    )


def read_results(path: Path) -> dict[str, Sequence[Resource]]:
    """The results in a file. A last line that an interruption left incomplete is ignored. Raises InputError."""
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read()
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    results = dict[str, Sequence[Resource]]()
    for number, line in enumerate(text.split("\n")[:-1], 1):
        value = as_object(json_value(line))
        search, example = value.get("search"), value.get("example")
        if not isinstance(search, str) and not isinstance(example, str):
            raise InputError(f"{path}:{number}: is not a search with its resources; make the set again")
        name = search if isinstance(search, str) else _EXAMPLE + str(example)
        results[name] = objects(value.get("resources"))
    if text and not results:
        raise InputError(f"{path}: contains no recorded searches")
    return results


def result_lines(results: Results) -> Iterator[str]:
    """The lines of results."""
    for name, resources in results.items():
        example = name.removeprefix(_EXAMPLE)
        named = {"search": name} if example == name else {"example": example}
        yield json.dumps({**named, "resources": resources}, ensure_ascii=False) + "\n"


class _Recorder:
    """Forwards searches to a source, each once, and records the results. See `Source`."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.results: dict[str, Sequence[Resource]] = {}
        self.asked: set[str] = set()
        """The searches of the present case."""

    def search(self, kind: str, **query: str) -> Sequence[Resource]:
        name = search_name(kind, query)
        self.asked.add(name)
        if name not in self.results:
            self.results[name] = self._source.search(kind, **query)
        return self.results[name]


def recorded(
    cases: Iterable[tuple[Case, Amendment]],
    source: Source,
    known: Examples = MappingProxyType({}),
    *,
    complete: bool,
    whole: bool,
) -> dict[str, Sequence[Mapping[str, Any]]]:
    """What the rules of some cases read, under all their rule sets, each over the chart with its change, the patients,
    and examples of what the rules look for: of `known` those that these charts do not show.

    `complete`: also the resources that no rule used; they are kept for charts with a change, and if none was used.
    `whole`: all elements of a resource, not only those that rules of published benchmarks read. Raises FactsError.
    """
    recorder, used, undecided, charts = _Recorder(source), set[int](), set[str](), list[Chart]()
    for case, change in cases:
        recorder.asked.clear()
        decides, opened = not (complete or change), list[Chart]()
        with suppress(DataFault, UngradableError):  # the task itself cannot be graded
            opened = list(case.charts(changed(recorder, change)))
        for chart in opened:
            try:
                case.kind.ruled(chart)
            except UngradableError:
                continue
            except DataFault:  # what cannot be read or compared decides too
                decides = False
            charts.append(chart)
            used |= {id(resource) for searched in chart.searched for resource in searched.used}
            if chart.patient:
                recorder.search("Patient", **{chart.identifier: chart.patient})
            for search in case.kind.searches:
                recorder.search(search.kind, patient=chart.patient, **search.query)
        undecided |= set() if decides else recorder.asked
    examples = _examples(charts, source, known)
    results = dict[str, Sequence[Mapping[str, Any]]]()
    for name, resources in recorder.results.items():
        decisive = [resource for resource in resources if id(resource) in used]
        if name in undecided or not decisive:  # without any, they may decide on a neighbouring chart
            decisive = list(resources)
        results[name] = decisive if whole else [_deciding(resource) for resource in decisive]
    return results | {_EXAMPLE + name: resources for name, resources in examples.items()}


def _examples(charts: Sequence[Chart], source: Source, known: Examples) -> Examples:
    """Those of a recorded source that the charts need; otherwise chosen among what their rules read, and known ones."""
    stored = source.examples if isinstance(source, RecordedSource) else known
    names = {example_name(searched) for chart in charts for searched in chart.searched}
    needed = {name: resources for name, resources in stored.items() if name in names}
    learned = {} if isinstance(source, RecordedSource) else learned_examples(charts)
    return {**learned, **{name: resources for name, resources in needed.items() if name not in learned}}


def _deciding(resource: Resource) -> dict[str, Any]:
    elements = {name: resource[name] for name in _DECIDING if name in resource}
    if "meta" in resource:
        meta = as_object(resource["meta"])
        elements["meta"] = {"lastUpdated": meta["lastUpdated"]} if "lastUpdated" in meta else {}
    return elements
