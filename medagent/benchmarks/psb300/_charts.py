"""The charts by which episodes are graded, and the cut-off after which resources do not count.

Agents may write to a FHIR server, so a run on one saves its charts before the first episode.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from medagent.benchmarks.clinical.items import Facts
from medagent.benchmarks.clinical.sets import TaskSet
from medagent.benchmarks.psb300.tasks import constants_of
from medagent.fhir_data.asking import Ask
from medagent.reports.tables import named
from refsol.clinical.recorded import RecordedSource, recorded
from refsol.clinical.sources import SearchEhr, Source
from refsol.errors import FactsError
from refsol.psb300 import RuleConstants, stored
from refsol.psb300.twins import case_of
from refsol.resources import FhirSearches

NOT_APPLIED = "cut-off not applied"
_NAMED = 5
_AT_ONCE = 50
"""Patients per search."""


@dataclass(frozen=True, slots=True)
class CutOff:
    """The constants for grading, after a look at the charts, and the time of grading for task1."""

    constants: RuleConstants
    clock: datetime
    empty: bool = False
    """Whether no chart contains a resource that the rules may read."""
    applied: bool = True


def judged_by_cut_off(source: Source, tasks: TaskSet, clock: datetime) -> Facts:
    """The facts with their cut-off, which applies unless every resource was stored after it. Raises FactsError."""
    constants = constants_of(tasks)
    if constants.cut_off is None:
        return Facts(source, (), CutOff(constants, clock))
    state = stored([task.published for task in tasks.tasks], source, constants.cut_off)
    day = constants.cut_off.date()
    if not state.resources:
        note = "No chart contains anything that these tasks ask for. Are these the right patients?"
        return Facts(source, (note,), CutOff(constants, clock, empty=True))
    if not state.cut_off_applies:
        note = f"{NOT_APPLIED}: all {state.resources} resources of the charts were stored after {day}"
        return Facts(source, (note,), CutOff(RuleConstants(None, constants.default_now), clock, applied=False))
    if state.late:
        note = f"{len(state.late)} charts were stored after {day} and count as empty: {named(state.late, _NAMED)}"
        return Facts(source, (note,), CutOff(constants, clock))
    return Facts(source, (), CutOff(constants, clock))


def missing_patients(server: tuple[str, Ask], mrns: Sequence[str]) -> list[str]:
    """The patients that a server does not have, each once. Raises FactsError."""
    searches = FhirSearches(*server)
    present: set[str] = set()
    different = list(dict.fromkeys(mrns))
    for first in range(0, len(different), _AT_ONCE):
        ids = different[first : first + _AT_ONCE]
        resources = searches.resources("Patient", f"_id={','.join(ids)}&_count={_AT_ONCE}")
        present.update(str(resource.get("id")) for resource in resources)
    return [mrn for mrn in different if mrn not in present]


def saved_charts(tasks: TaskSet, server: tuple[str, Ask]) -> RecordedSource:
    """What the rules may read of a server's charts. Raises FactsError."""
    constants = constants_of(tasks)
    cases = [(case_of(task.published, constants.default_now, constants), ()) for task in tasks.tasks]
    results = recorded(cases, SearchEhr(*server), complete=True, whole=False)
    return RecordedSource(results, lambda search: FactsError(f"the saved charts do not contain {search}"))
