"""Rules that read a hospital's own server.

A rule reads a chart by searches. A search without a result yet stops the rule (`Pending`). When the server has
answered, the rule runs again from the start.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from medagent.core.errors import NOT_SHOWN, ChartChangedError, FhirUnavailableError, UserError
from medagent.fhir_data.record import EhrSession, TooMuchError
from medagent.fhir_episodes.episode import ChartCheck
from medagent.fhir_episodes.task import FhirTask
from refsol.clinical.chart import Chart
from refsol.clinical.meanings import CLINICAL
from refsol.clinical.recorded import RecordedSource
from refsol.clinical.sources import PAGE, Resource, Source
from refsol.clinical.task_type import Pending, RuleError, TaskType
from refsol.clinical.trial import written
from refsol.errors import DataFault
from refsol.json_values import as_object, json_value, objects

T = TypeVar("T")


async def asked(ehr: EhrSession, base: str, results: dict[str, Sequence[Resource]], rule: Callable[[Source], T]) -> T:
    """What a function of a source returns. Results that it needs are read from the server and added to `results`.

    Raises FhirUnavailableError, StopRunError.
    """
    while True:
        try:
            return rule(RecordedSource(results, Pending))
        except Pending as pending:
            every = pages(ehr, base, f"{pending}&_count={PAGE}")
            results[str(pending)] = [match async for page in every for match in page]


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
        yield [resource for resource in entries if resource.get("resourceType") == kind]
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
        raise UserError(f"{error.place} failed: {type(error.__cause__).__name__} ({NOT_SHOWN})") from None


def ruling_text(kind: TaskType, chart: Chart) -> str:
    """The ruling of a rule as text, to compare two charts. Raises RuleError, FactsError."""
    try:
        return written(kind.ruled(chart), chart)
    except DataFault:
        return "the data allows no ruling"


@dataclass(frozen=True, slots=True)
class RulingCheck(ChartCheck):
    """Runs the rules again on the server. `charts` lists for each item the Patient's id and the set's ruling."""

    types: Callable[[], Sequence[TaskType]]
    base: str
    charts: Mapping[str, tuple[str, str]]

    async def check(self, task: FhirTask, ehr: EhrSession) -> None:
        (patient, before), now = self.charts[task.id], task.now
        assert now is not None
        kind = next(kind for kind in self.types() if kind.name == task.type)

        def ruling(source: Source) -> str:
            return ruling_text(kind, Chart(source, patient, now, CLINICAL))

        if await asked(ehr, self.base, {}, ruling) != before:
            raise ChartChangedError("chart changed: the rule gives another ruling than when the set was made")
