"""What rules read from a hospital's own server, and the file in which a set keeps it.

A rule reads a chart by searches. A search without a result yet stops the rule (`Pending`). When the server has
answered, the rule runs again from the start. A set keeps the results, so that its items can be graded without the
server.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

from pydantic import AwareDatetime, BaseModel, ConfigDict

from medagent.core.errors import FhirUnavailableError, UserError
from medagent.engine.patient_data import NOT_SHOWN
from medagent.fhir_data.record import EhrSession, TooMuchError
from refsol.clinical.chart import Chart
from refsol.clinical.sources import PAGE, Resource, Source
from refsol.clinical.task_type import Pending, RuleError, TaskType
from refsol.clinical.trial import written
from refsol.errors import DataFault
from refsol.json_values import as_object, json_value, objects

READS = "reads.jsonl"
"""The file of a set that was made from a server. Its first line is an `Origin`, each other line a search."""

T = TypeVar("T")
Results = Mapping[str, Sequence[Resource]]
"""The resources that searches found, by `Observation?patient=12&code=2823-3`."""


class Origin(BaseModel):
    """Where and when charts were read: the digest of the server's address, the clock of the tasks, and the system of
    the identifiers that texts show (empty: they show the ids of the Patients).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    server: str
    now: AwareDatetime
    id_system: str = ""


class Searches:
    """A source with known results. For a search without a result it raises `unknown` of it."""

    def __init__(self, results: Results, unknown: Callable[[str], BaseException]) -> None:
        self._results, self._unknown = results, unknown
        self.used: dict[str, Sequence[Resource]] = {}
        """The results that were asked for."""

    def search(self, kind: str, **query: str) -> Sequence[Resource]:
        name = f"{kind}?{urlencode(query)}"
        if name not in self._results:
            raise self._unknown(name)
        self.used[name] = self._results[name]
        return self._results[name]


def read_origin(path: Path) -> Origin:
    """The first line of a file of results. Raises UserError."""
    with path.open(encoding="utf-8") as file:
        return _origin(path, file.readline())


def read_results(path: Path) -> dict[str, Sequence[Resource]]:
    """The results in a file. A last line that an interruption left incomplete is ignored. Raises UserError."""
    with path.open(encoding="utf-8") as file:
        lines = [line for line in file if line.endswith("\n")][1:]
    results = dict[str, Sequence[Resource]]()
    for number, line in enumerate(lines, 2):
        value = as_object(json_value(line))
        if not isinstance(value.get("search"), str):
            raise UserError(f"{path}:{number}: is not a search with its resources; make the set again")
        results[value["search"]] = objects(value.get("resources"))
    return results


def results_text(origin: Origin, results: Results) -> str:
    """The content of a file of results."""
    return f"{origin.model_dump_json()}\n{''.join(result_lines(results))}"


def result_lines(results: Results) -> Iterator[str]:
    """The lines of results."""
    for name, resources in results.items():
        yield json.dumps({"search": name, "resources": resources}, ensure_ascii=False) + "\n"


def _origin(path: Path, line: str) -> Origin:
    try:
        return Origin.model_validate_json(line)
    except ValueError:
        raise UserError(f"{path}: does not begin with the server and the clock; make the set again") from None


async def asked(ehr: EhrSession, base: str, results: dict[str, Sequence[Resource]], rule: Callable[[Source], T]) -> T:
    """What a function of a source returns. Results that it needs are read from the server and added to `results`.

    Raises FhirUnavailableError, StopRunError.
    """
    while True:
        try:
            return rule(Searches(results, Pending))
        except Pending as pending:
            every = pages(ehr, base, f"{pending}&_count={PAGE}")
            results[str(pending)] = [one async for page in every for one in page]


async def pages(ehr: EhrSession, base: str, search: str) -> AsyncIterator[list[dict[str, Any]]]:
    """The matches of a search, page by page. Raises FhirUnavailableError."""
    kind, target = search.partition("?")[0], f"/{search}"
    while target:
        try:
            reply = await ehr.get(target)
        except TooMuchError as error:
            raise FhirUnavailableError(f"a search of {kind}: {error}") from None
        bundle = as_object(json_value(reply.text))
        if not reply.ok or bundle.get("resourceType") != "Bundle":
            raise FhirUnavailableError(f"the FHIR server answers a search of {kind} with status {reply.status}")
        entries = (as_object(entry.get("resource")) for entry in objects(bundle.get("entry")))
        yield [one for one in entries if one.get("resourceType") == kind]
        links = objects(bundle.get("link"))
        following = next((str(link.get("url")) for link in links if link.get("relation") == "next"), "")
        target = following.removeprefix(base.rstrip("/"))


@contextmanager
def rules_at_fault(private: bool) -> Iterator[None]:
    """Raises UserError for a rule at fault. With private data, it shows the type of the rule's error, but not its
    text.
    """
    try:
        yield
    except RuleError as error:
        if not private or error.__cause__ is None:
            raise UserError(str(error)) from error.__cause__
        place = str(error).partition(" failed: ")[0]
        raise UserError(f"{place} failed: {type(error.__cause__).__name__} ({NOT_SHOWN})") from None


def ruling_text(kind: TaskType, chart: Chart) -> str:
    """The ruling of a rule as text, to compare two charts. Raises RuleError, FactsError."""
    try:
        return written(kind.ruled(chart), chart)
    except DataFault:
        return "the data allows no ruling"
