"""The charts by which episodes are graded, and the cut-off after which resources do not count.

Charts come from the embedded server (in process), from a FHIR server, or from a run's folder: agents may write to a
FHIR server, so a run saves its charts before the first episode.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medagent.benchmarks.data_sources import former
from medagent.benchmarks.psb300.settings import Psb300Grading, Psb300Settings
from medagent.benchmarks.psb300.tasks import FORMER, IMPORTED, TaskSet
from medagent.core.errors import UserError
from medagent.core.wire import without_password
from medagent.core.writing import file_digest
from medagent.fhir_data.asking import Ask, http_ask, server_ask
from medagent.fhir_data.embedded import EhrFile, EmbeddedEhr, bundled_file, imported_file
from medagent.reports.tables import named
from refsol.files import json_object, read_json
from refsol.psb300 import Constants, SearchEhr, Source, StoredFacts, save, stored
from refsol.resources import FhirSearches

CHARTS = "charts.json"
"""The file of the charts in the folder of a run on a FHIR server."""
_BASE = "http://localhost/fhir"
NOT_APPLIED = "cut-off not applied"
_NAMED = 5
_AT_ONCE = 50
"""Patients per search."""


@dataclass(frozen=True, slots=True)
class OpenCharts:
    """The facts and their constants. `notes` are sentences for a reader of the score."""

    facts: Source
    constants: Constants
    notes: tuple[str, ...] = ()
    empty: bool = False
    """Whether no chart contains a resource that the rules may read."""
    cut_off_applied: bool = True


def patients_file(tasks: TaskSet, ehr: Path | None, say: Any = lambda _: None) -> EhrFile:
    """The patients for the embedded server: a user's file, the data set's own file, or the bundled hospital.

    Raises UserError for the published data set, whose patients are not bundled.
    """
    own = ehr or tasks.hospital
    if own is not None:
        return imported_file(own, say)
    if tasks.folder.name == FORMER:
        raise former(FORMER)
    if tasks.name == IMPORTED:
        raise UserError(
            f"data set {IMPORTED!r} needs its own patients: name their FHIR server with --fhir, or a copy of it with "
            "--ehr FILE (made by medagent ehr copy)"
        )
    return bundled_file(say)


def open_charts(source: Psb300Settings, tasks: TaskSet) -> OpenCharts:
    """Open the charts of a source. Raises UserError, FactsError."""
    saved = source.charts if isinstance(source, Psb300Grading) else None
    if saved is not None:
        facts: Source = saved_facts(saved)
    elif source.fhir is not None:
        facts = StoredFacts(save_charts(tasks, ask_of(source, tasks)))
    else:
        facts = SearchEhr(*ask_of(source, tasks))
    return judged_by_cut_off(facts, tasks)


def judged_by_cut_off(facts: Source, tasks: TaskSet) -> OpenCharts:
    """Apply the cut-off to the facts, unless every resource was stored after it. Raises FactsError."""
    constants = tasks.constants
    if constants.cut_off is None:
        return OpenCharts(facts, constants)
    state = stored(dicts(tasks), facts, constants.cut_off)
    day = constants.cut_off.date()
    if not state.resources:
        note = "No chart contains anything that these tasks ask for. Are these the right patients?"
        return OpenCharts(facts, constants, (note,), empty=True)
    if not state.cut_off_applies:
        note = f"{NOT_APPLIED}: all {state.resources} resources of the charts were stored after {day}"
        return OpenCharts(facts, Constants(None, constants.default_now), (note,), cut_off_applied=False)
    if state.late:
        note = f"{len(state.late)} charts were stored after {day} and count as empty: {named(state.late, _NAMED)}"
        return OpenCharts(facts, constants, (note,))
    return OpenCharts(facts, constants)


def dicts(tasks: TaskSet) -> list[dict[str, Any]]:
    """The tasks in the format that refsol reads."""
    return [task.model_dump() for task in tasks.tasks]


def ask_of(source: Psb300Settings, tasks: TaskSet) -> tuple[str, Ask]:
    """The base URL of a source's server, and a function that sends GETs to it. Raises UserError."""
    if source.fhir is not None:
        return http_ask(source.fhir, source.fhir_headers, source.ca_file)
    file = patients_file(tasks, source.ehr)
    return _BASE, server_ask(EmbeddedEhr.open(file.path, _BASE).server, _BASE)


def digest_of(source: Psb300Settings, tasks: TaskSet) -> str:
    """An identifier of a source's charts: the digest of a file, or a server's address. Raises UserError."""
    if isinstance(source, Psb300Grading) and source.charts is not None:
        return file_digest(source.charts)
    return without_password(source.fhir) if source.fhir is not None else patients_file(tasks, source.ehr).digest


def missing_patients(server: tuple[str, Ask], mrns: Sequence[str]) -> list[str]:
    """The patients that a server does not have, each once. Raises FactsError."""
    searches = FhirSearches(*server)
    present: set[str] = set()
    different = list(dict.fromkeys(mrns))
    for first in range(0, len(different), _AT_ONCE):
        some = different[first : first + _AT_ONCE]
        resources = searches.resources("Patient", f"_id={','.join(some)}&_count={_AT_ONCE}")
        present.update(str(one.get("id")) for one in resources)
    return [mrn for mrn in different if mrn not in present]


def save_charts(tasks: TaskSet, server: tuple[str, Ask]) -> dict[str, Any]:
    """The content of the file `CHARTS` for a server. Raises FactsError."""
    return save(dicts(tasks), SearchEhr(*server))


def saved_facts(path: Path) -> StoredFacts:
    """Read the charts that a run saved. Raises UserError."""
    document = read_json(path, json_object, expected="the charts of a run are expected", error=UserError)
    try:
        return StoredFacts(document)
    except (KeyError, TypeError):
        raise UserError(f"{path}: the charts of a run are expected, but it contains no searches with results") from None
