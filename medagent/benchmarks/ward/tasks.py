"""The tasks of a file of task types: dealt from the patients' data, or from a set that `medagent data new` made.

A set, like the folder of a run, lists its tasks by type and patient. The texts, the rules and the code come only from
the file that the user names.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from fhir_server.synthetic.dice import Dice
from medagent.benchmarks._task_files import ChartTask, TaskId, read_tasks
from medagent.benchmarks.dealing import HALF, Candidate, Dealt, candidate, deal
from medagent.benchmarks.made_folders import HOSPITAL, MANIFEST, Made, checked_file, seed_number
from medagent.benchmarks.ward.reads import READS, Searches, read_origin, read_results
from medagent.benchmarks.ward.settings import PER_TYPE, WardGrading, WardSettings
from medagent.core.errors import UserError
from medagent.core.wire import without_password
from medagent.engine.benchmark import Say
from medagent.fhir_data.asking import Ask, http_ask, server_ask
from medagent.fhir_data.embedded import EhrFile, EmbeddedEhr, bundled_file, imported_file
from medagent.fhir_episodes.task import FhirItem
from refsol.clinical.chart import Chart
from refsol.clinical.meanings import CLINICAL
from refsol.clinical.sources import PAGE, Amendment, SearchEhr, Source
from refsol.clinical.task_type import RuleError, TaskType
from refsol.clinical.trial import instruction, other_names, tried
from refsol.clinical.twins import changed
from refsol.errors import DataFault, FactsError
from refsol.files import json_object, read_json
from refsol.json_values import as_object
from refsol.resources import FhirSearches
from refsol.schema import validator

TASKS = "own_tasks.json"
"""The file of a set, and of a run's folder, that lists the tasks."""
SEED = "0"
"""The seed of items that a run deals."""
_BASE = "http://localhost/fhir"
_NEWEST = {
    "Observation": "date",
    "Procedure": "date",
    "DiagnosticReport": "date",
    "Immunization": "date",
    "Encounter": "date",
    "MedicationRequest": "authoredon",
    "ServiceRequest": "authored",
    "Condition": "onset-date",
}
"""By type the search parameter of the time by which the newest resource is searched."""
_TIMES = ("effectiveDateTime", "performedDateTime", "occurrenceDateTime", "authoredOn", "onsetDateTime")
_PERIODS = ("effectivePeriod", "performedPeriod", "period")


class Task(ChartTask):
    """A task of a set."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: TaskId
    type: str
    patient: Annotated[str, Field(min_length=1)]
    """The id of the Patient."""
    mrn: Annotated[str, Field(exclude_if=lambda one: not one)] = ""
    """The identifier that the texts show instead of the id."""


class WardManifest(BaseModel):
    """The content of `dataset.json`. `files` lists the SHA-256 of each file by name."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    now: AwareDatetime
    files: dict[str, str]
    made: Made


@dataclass(frozen=True, kw_only=True)
class WardItem(FhirItem):
    """A task with its type and patient."""

    stored: Task
    kind: TaskType
    patient: str
    """The id of the Patient."""
    tasks: TaskSet

    @property
    def chart(self) -> Chart:
        """A new chart of the patient."""
        return self.tasks.chart(self.patient, self.stored.change)


class TaskSet:
    """The tasks of a source, and the facts by which they are graded. `now` is the time of all tasks."""

    def __init__(self, source: WardSettings, types: Mapping[str, TaskType]) -> None:
        self._types, self.missing = types, list[str]()
        self._base = source.api_base.rstrip("/") + "/"
        manifest = own_manifest(source.dataset)
        self.facts, self.digest, newest = _facts(source)
        self.now = source.now or (manifest.now if manifest else newest())
        file = source.tasks if isinstance(source, WardGrading) else None
        if file is None and source.dataset is not None and manifest is not None:
            file = checked_file(source.dataset, manifest.files, TASKS)
        tasks = read_tasks(file, Task) if file else self._dealt(source.per_type or PER_TYPE)
        others = other_names(types.values())
        self.items = [self._item(one) for one in tasks if one.type not in others]
        self.name = manifest.name if manifest else ""

    def chart(self, patient: str, change: Amendment = ()) -> Chart:
        """A new chart of a patient, with a twin's change. Its orders have the FHIR base that agents are shown."""
        return self.chart_over(changed(self.facts, change), patient)

    def chart_over(self, source: Source, patient: str) -> Chart:
        """A new chart of a patient over a source."""
        return Chart(source, patient, self.now, CLINICAL, base=self._base)

    def deal(self, kind: TaskType, count: int, seed: str) -> Dealt:
        """Deal the tasks of a type. Raises RuleError for a rule at fault."""
        patients = self.facts.search("Patient", _count=str(PAGE))
        charts = [partial(self.chart, str(one["id"])) for one in patients if is_living(one)]
        return deal_type(kind, charts, count, seed)

    def _dealt(self, count: int) -> Iterator[Task]:
        for kind in self._types.values():
            dealt = self.deal(kind, count, SEED)
            self.missing += [f"{kind.name}: {words}" for words in dealt.missing]
            yield from tasks_of(kind, dealt)

    def _item(self, task: Task) -> WardItem:
        kind = self._types.get(task.type)
        if kind is None:
            raise UserError(
                f"{task.id}: the file does not contain the task type {task.type!r}; its types: {', '.join(self._types)}"
            )
        mrn = task.mrn or task.patient
        clock = f"The current time is {self.now.isoformat()}."
        more = kind.context.format(mrn=mrn)
        return WardItem(
            id=task.id,
            group=kind.name,
            question=instruction(kind, mrn),
            context=f"{clock} {more}".rstrip(),
            mrn=mrn,
            patient=task.patient,
            now=self.now,
            stored=task,
            kind=kind,
            tasks=self,
            cluster=task.twin,
            pair=task.twin,
            change=task.amendment,
            injected=task.injected,
        )


def try_rule(item: WardItem) -> None:
    """Run the rule of a task. Raises RuleError for a rule at fault, and FactsError."""
    with suppress(DataFault):  # the item is then ungraded, with the reason
        tried(item.kind, lambda: item.chart)


@lru_cache(maxsize=4)
def task_set(source: WardSettings, types: tuple[TaskType, ...]) -> TaskSet:
    """The tasks of a source. Raises UserError, FactsError, RuleError."""
    opened = TaskSet(source, {kind.name: kind for kind in types})
    if opened.items:
        return opened
    if opened.missing:
        raise RuleError(f"no patient's chart allows a task: {'; '.join(opened.missing)}")
    raise UserError(f"{source.dataset}: contains no task of {', '.join(one.name for one in types)}")


def is_living(patient: Mapping[str, Any]) -> bool:
    """Whether a Patient did not die."""
    return "deceasedDateTime" not in patient and not patient.get("deceasedBoolean")


def deal_type(kind: TaskType, charts: Sequence[Callable[[], Chart]], count: int, seed: str) -> Dealt:
    """Deal the tasks of a type over patients' charts, each made by a function. Raises RuleError for a rule at fault."""
    candidates = [_candidate(kind, chart) for chart in charts]
    dice = Dice(seed_number(seed, f"ward {kind.name}"))
    return deal([one for one in candidates if one is not None], HALF, count, dice)


def _candidate(kind: TaskType, make: Callable[[], Chart]) -> Candidate | None:
    try:
        tried(kind, make)
    except DataFault:
        return None
    one = candidate(kind, chart := make())
    return one and replace(one, branch=_words(one.branch, chart))


def _words(branch: str, chart: Chart) -> str:
    """A branch in words. If nothing was compared or missing, it is what the rule found."""
    names = (look.what or " or ".join(code.label for code in look.search.codes) for look in chart.looked)
    return f"with {' and '.join(filter(None, names))}" if branch == "any" and chart.looked else branch


def tasks_of(kind: TaskType, dealt: Dealt) -> list[Task]:
    """The dealt tasks of a type."""
    return [
        Task(id=f"{kind.name}_{place}", type=kind.name, patient=one.mrn) for place, one in enumerate(dealt.chosen, 1)
    ]


def tasks_text(tasks: Sequence[Task]) -> str:
    """The content of a file of tasks."""
    return json.dumps([one.model_dump() for one in tasks], indent=1) + "\n"


def read_manifest(folder: Path) -> WardManifest:
    """The manifest of a set. Raises UserError."""
    expected = "a folder made by medagent data new --from FILE.py is expected"
    manifest: WardManifest = read_json(folder / MANIFEST, validator(WardManifest), expected=expected, error=UserError)
    return manifest


def own_manifest(dataset: Path | None) -> WardManifest | None:
    """The manifest of a set of own task types. None for another benchmark's set: only its patients are used. Raises
    UserError.
    """
    if dataset is None:
        return None
    expected = "a folder made by medagent data new is expected"
    listed = read_json(dataset / MANIFEST, json_object, expected=expected, error=UserError).get("files")
    return read_manifest(dataset) if TASKS in as_object(listed) else None


def patients_file(source: WardSettings, say: Say = lambda _: None) -> EhrFile:
    """The patients for the embedded server: a user's file, the set's own, or the bundled hospital. Raises UserError."""
    if source.ehr is not None:
        return imported_file(source.ehr, say)
    if hospital_reads(source.dataset) is not None:
        raise UserError(_OF_A_HOSPITAL.format(source.dataset))
    if source.dataset is None:
        return bundled_file(say)
    manifest = own_manifest(source.dataset)
    if manifest is not None:
        return imported_file(checked_file(source.dataset, manifest.files, HOSPITAL), say)
    return imported_file(source.dataset / HOSPITAL, say)


def hospital_reads(dataset: Path | None) -> Path | None:
    """What rules have read, if a set was made from a hospital's server; otherwise None."""
    path = None if dataset is None else dataset / READS
    return path if path is not None and path.is_file() else None


def _facts(source: WardSettings) -> tuple[Source, str, Callable[[], datetime]]:
    """The facts, the digest of the data or of a server's address, and the newest time. Raises UserError."""
    if source.dataset is not None and hospital_reads(source.dataset) is not None:
        if not (source.private or isinstance(source, WardGrading)):
            raise UserError(_OF_A_HOSPITAL.format(source.dataset))
        files = read_manifest(source.dataset).files
        path = checked_file(source.dataset, files, READS)
        return Searches(read_results(path), unread), files[READS], lambda: read_origin(path).now
    if source.fhir is not None:
        digest = hashlib.sha256(without_password(source.fhir).encode()).hexdigest()
        base, ask = http_ask(source.fhir, source.fhir_headers, source.ca_file)
    else:
        patients = patients_file(source)
        base, digest = _BASE, patients.digest
        ask = server_ask(EmbeddedEhr.open(patients.path, base).server, base)
    return SearchEhr(base, ask), digest, partial(newest_time, base, ask)


_OF_A_HOSPITAL = "{}: was made from a hospital's own server; run it with --fhir URL --writes private"


def unread(search: str) -> FactsError:
    """The error for a search that is not in a set. It shows only the type, since a search identifies a patient."""
    return FactsError(
        f"the set does not contain the result of a search of {search.partition('?')[0]}: "
        "the rule has changed; make the set again"
    )


def newest_time(base: str, ask: Ask) -> datetime:
    """The newest time at which something was measured, done or ordered. Raises UserError if there is none."""
    server = FhirSearches(base, ask)
    newest = (one for kind, name in _NEWEST.items() for one in server.resources(kind, f"_sort=-{name}&_count=1"))
    times = [time for one in newest for text in _texts(one) if (time := _time(text)) is not None]
    if not times:
        raise UserError("the patients' data contains no times; pass the time of the tasks with --now")
    return max(times)


def _texts(resource: Mapping[str, Any]) -> Iterator[Any]:
    yield from (resource.get(name) for name in _TIMES)
    yield from (as_object(resource.get(name)).get(end) for name in _PERIODS for end in ("start", "end"))


def _time(text: Any) -> datetime | None:
    try:
        time = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
