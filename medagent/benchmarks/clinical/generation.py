"""Makes the folder of a set of tasks from a seed: patients, tasks, recorded searches, and the manifest."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from fhir_server.synthetic import HospitalProfile, lines
from fhir_server.synthetic.bundled import PROFILE, hospital
from fhir_server.synthetic.seeded_random import SeededRandom
from medagent.benchmarks.clinical.asking import rules_at_fault
from medagent.benchmarks.clinical.injected import injected
from medagent.benchmarks.clinical.newest import newest_time
from medagent.benchmarks.clinical.plugin_types import types_digest
from medagent.benchmarks.clinical.sampling import Candidate, Sampled, candidate, is_alike, is_living, sample, share_of
from medagent.benchmarks.clinical.sets import write_set
from medagent.benchmarks.clinical.tasks import Task
from medagent.benchmarks.generated_sets import (
    HOSPITAL,
    SetGenerator,
    SetRequest,
    counted,
    new_hospital,
    seed_number,
    written,
)
from medagent.core.errors import UserError
from medagent.core.paths import cache_dir
from medagent.core.writing import file_digest, replacing
from medagent.engine.accounts import Account
from medagent.engine.data_sets import (
    BASE,
    MANIFEST,
    GeneratedSet,
    Generation,
    SetManifest,
    SetOptions,
    Split,
    seed_digest,
)
from medagent.fhir_data.embedded import imported_file
from medagent.fhir_data.facts import file_ask
from medagent.fhir_data.store import stored_lines
from refsol.clinical.chart import Chart
from refsol.clinical.meanings import CLINICAL
from refsol.clinical.one_page import is_right_by_one_page
from refsol.clinical.pairs import Case, plausible
from refsol.clinical.recorded import recorded, result_lines
from refsol.clinical.sources import PAGE, SearchEhr, Source
from refsol.clinical.task_type import TaskType
from refsol.clinical.trial import instruction, tried
from refsol.errors import DataFault

_SALT = "ward"
"""A part of the number that a seed becomes. With another one, the same seed would sample other tasks."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a seed and options fix before patients are made. `number` seeds the sampling, `injection` the instructions
    in charts.
    """

    profile: HospitalProfile
    number: int
    injection: int
    split: Split | None = None
    constants: Mapping[str, Any] = field(default_factory=dict)
    rules: Any = None
    """The constants as the rules of the benchmark's types need them."""


class TypeSample(NamedTuple):
    """The tasks of a type, the account of its patients, and by reason the ids of those that were left out."""

    tasks: Sampled
    account: Account
    left_out: Mapping[str, tuple[str, ...]]


class SampledTasks(NamedTuple):
    """The tasks of a set, the facts that they were sampled from, their clock, and the samples of a user's own types."""

    tasks: Sequence[Task]
    facts: Source
    clock: datetime
    samples: Mapping[str, TypeSample] = {}


class ClinicalGenerator(SetGenerator):
    """Makes the sets of a benchmark of task types."""

    benchmark: str
    whole = False
    """Whether recorded searches are complete, because the rules may change later."""
    has_splits: ClassVar[bool] = False
    """Whether its sets have splits, which share no seed: `train`, `dev`, `test` and `ood`."""
    repeats_patients: ClassVar[bool] = False
    """Whether a training set may have more tasks of a type than patients, with other wordings."""

    @property
    def code(self) -> str:
        """The digest of the code of a user's types, which decides the tasks too; empty for bundled types."""
        return ""

    def make(self, folder: Path, options: SetOptions) -> GeneratedSet:
        """See `SetGenerator.make`. A rule at fault is a UserError."""
        with rules_at_fault(private=False):
            return super().make(folder, options)

    def hospital_again(self, folder: Path, manifest: SetManifest, seed: str) -> Path:
        """Make the patients of a folder that contains its seed but not its patients again, in the cache folder.

        Raises UserError if this generator makes other patients.
        """
        digest, generation = manifest.files[HOSPITAL], manifest.generated
        target = cache_dir() / f"{manifest.name}-{digest[:16]}.ndjson"
        if target.is_file() and file_digest(target) == digest:
            return target
        assert generation is not None
        profile = self.prepare(seed, generation.options(seed), generation.split).profile
        with replacing(target) as part:
            target.parent.mkdir(parents=True, exist_ok=True)
            with part.open("w", encoding="utf-8", newline="\n") as file:
                file.writelines(line + "\n" for line in lines(profile))
            if file_digest(part) != digest:
                raise UserError(
                    f"{folder}: generator {self.version} makes other patients from its seed than {MANIFEST} lists; "
                    f"copy the folder with its {HOSPITAL}"
                )
        return target

    @abstractmethod
    def prepare(self, seed: str, options: SetOptions, split: Split | None) -> Prepared:
        """What a seed and options fix."""

    @abstractmethod
    def sampled(self, patients: Iterable[str], folder: Path, prepared: Prepared, per_type: int) -> SampledTasks:
        """Sample the tasks from a hospital's lines, which `folder` will contain. Raises UserError, RuleError."""

    @abstractmethod
    def case(self, task: Task, clock: datetime, prepared: Prepared) -> Case:
        """A task as a case, whose charts are those of all rule sets."""

    def name(self, seed: str, options: SetOptions, split: Split | None) -> str:
        """The name of a set."""
        return seed_digest(seed)[:12]

    def like(self, options: SetOptions) -> str:
        """The kind of set that the options name. Raises UserError for an unknown one."""
        if options.like:
            raise UserError(f"{self.benchmark}: its sets have one kind: leave --like {options.like} out")
        return ""

    def parts(self, tasks: Sequence[Task], per_type: int) -> Mapping[str, tuple[str, ...]]:
        """The named parts of a set."""
        return {}

    def write(self, folder: Path, request: SetRequest) -> GeneratedSet:
        options, seed = request.options, request.seed
        split = request.split or options.split
        prepared, counts = self.prepare(seed, options, split), Counter[str]()
        patients = hospital() if request.bundled else _patients(prepared.profile, options.ehr, folder)
        sampled = self.sampled(counted(patients, counts), folder, prepared, options.per_type)
        cases = [self.case(task, sampled.clock, prepared) for task in sampled.tasks]
        tasks = [
            task.model_copy(update={"one_page": _is_right_by_one_page(case, sampled.facts)})
            for task, case in zip(sampled.tasks, cases, strict=True)
        ]
        if options.injected:
            tasks = injected(tasks, cases, folder, options.injected, prepared.injection)
        changes = [task.amendment for task in tasks]
        reads = recorded(zip(cases, changes, strict=True), sampled.facts, complete=self.whole, whole=self.whole)
        stated = replace(options, like=self.like(options), split=split, patients=counts["Patient"])
        generation = Generation.of(self.version, seed, request.private, stated, counts)
        manifest = SetManifest(
            name=request.bundled or self.name(seed, options, split),
            benchmark=self.benchmark,
            clock=sampled.clock,
            base=BASE,
            constants=prepared.constants,
            parts=self.parts(tasks, options.per_type),
            files={},
            generated=generation,
            **accounts_of(sampled.samples),
        )
        write_set(folder, manifest, tasks, result_lines(reads), (HOSPITAL,))
        return GeneratedSet(manifest.name, generation, len(tasks), list(branches(sampled.samples)))


def _is_right_by_one_page(case: Case, facts: Source) -> bool | None:
    """See `Task.one_page`; None if the case is not about a chart."""
    if not case.charts(facts):
        return None
    with suppress(DataFault):
        return is_right_by_one_page(case.kind, lambda source: case.charts(source)[0], facts)
    return None


def _patients(profile: HospitalProfile, ehr: Path | None, folder: Path) -> Iterator[str]:
    """Write the patients of a file, or a new hospital, into a folder. Yields their lines."""
    if ehr is None:
        return new_hospital(profile, folder)
    return written(map(_line, stored_lines(imported_file(ehr).path)), folder)


def _line(stored: str) -> str:
    """A resource in the layout of a generated hospital: without spaces, its type first."""
    resource = json.loads(stored)
    return json.dumps({"resourceType": resource["resourceType"], **resource}, ensure_ascii=False, separators=(",", ":"))


class TypesGenerator(ClinicalGenerator):
    """Makes sets of task types whose rules may read any search: over the embedded server."""

    version = 1
    whole = True

    def __init__(self, benchmark: str, types: Sequence[TaskType]) -> None:
        self.benchmark = benchmark
        self._types = {kind.name: kind for kind in types}

    @property
    def code(self) -> str:
        return types_digest(tuple(map(type, self._types.values())))

    def prepare(self, seed: str, options: SetOptions, split: Split | None) -> Prepared:
        """See `ClinicalGenerator.prepare`. Raises UserError for a split or a kind of set."""
        if split is not None:
            raise UserError(f"{self.benchmark}: its sets have no splits: leave --split out")
        number = seed_number(seed, f"{_SALT} {self.version}")
        profile = replace(PROFILE, seed=number, patients=options.patients)
        return Prepared(profile, number, seed_number(seed, f"{_SALT} {self.version} injected"), rules=seed)

    def sampled(self, patients: Iterable[str], folder: Path, prepared: Prepared, per_type: int) -> SampledTasks:
        for _ in patients:
            pass
        server = file_ask(imported_file(folder / HOSPITAL).path)
        facts, clock = SearchEhr(*server), newest_time(*server)
        ids = living_patients(facts)
        samples = {
            kind.name: sample_type(kind, ids, facts, clock, per_type, prepared.rules) for kind in self._types.values()
        }
        tasks = [task for kind in self._types.values() for task in tasks_of(kind, samples[kind.name].tasks)]
        if not tasks:
            raise UserError(f"no patient's chart allows a task: {'; '.join(missing(samples))}")
        return SampledTasks(tasks, facts, clock, samples)

    def case(self, task: Task, clock: datetime, prepared: Prepared) -> Case:
        return types_case(self._types[task.type], task, clock, BASE)


def types_case(kind: TaskType, task: Task, clock: datetime, base: str) -> Case:
    """A task of a user's own types as a case."""
    return Case(kind, lambda source: [Chart(source, task.patient, clock, CLINICAL, base=base)], plausible)


def living_patients(facts: Source) -> list[str]:
    """The ids of the patients that tasks may be about."""
    patients = facts.search("Patient", _count=str(PAGE))
    return [str(patient["id"]) for patient in patients if is_living(patient)]


def sample_type(
    kind: TaskType, patients: Iterable[str], facts: Source, clock: datetime, count: int, seed: str
) -> TypeSample:
    """Sample the tasks of a type over the charts of some patients, by id. Raises RuleError for a rule at fault, and
    UserError if it can rule on nobody.
    """
    people, left_out = list[Candidate](), dict[str, list[str]]()
    for patient in patients:
        try:
            people.append(_candidate(kind, patient, facts, clock))
        except DataFault as fault:
            left_out.setdefault(fault.reason, []).append(patient)
    by_number = sorted(left_out.items(), key=lambda reason: (-len(reason[1]), reason[0]))
    tasks = sample(people, share_of(people), count, SeededRandom(seed_number(seed, f"{_SALT} {kind.name}")))
    account = Account(
        items=len(tasks.chosen),
        patients=len(people) + sum(map(len, left_out.values())),
        left_out={reason: len(ids) for reason, ids in by_number},
        due=sum(person.due for person in people),
        alike=is_alike(people),
    )
    if left_out and not people:
        raise UserError(
            f"{kind.name}: all {account.patients} patients are left out: {account.reasons}. Correct the rule, or leave "
            "this type out: FILE.py:Name runs one type alone"
        )
    return TypeSample(tasks, account, {reason: tuple(ids) for reason, ids in by_number})


def _candidate(kind: TaskType, patient: str, facts: Source, clock: datetime) -> Candidate:
    """Raises DataFault if the chart allows no ruling."""

    def chart() -> Chart:
        return Chart(facts, patient, clock, CLINICAL, base=BASE)

    tried(kind, chart)
    read = chart()
    person = candidate(kind, read)
    assert person is not None, "the rule has just ruled on this chart"
    return replace(person, branch=_words(person.branch, read))


def _words(branch: str, chart: Chart) -> str:
    """A branch in words. If nothing was compared or missing, it is what the rule found."""
    names = (searched.what or " or ".join(code.label for code in searched.search.codes) for searched in chart.searched)
    return f"with {' and '.join(filter(None, names))}" if branch == "any" and chart.searched else branch


def tasks_of(kind: TaskType, sampled: Sampled, shown: Mapping[str, str] | None = None) -> list[Task]:
    """The sampled tasks of a type. `shown` lists by id of the Patient the identifier that texts show."""
    tasks = []
    for place, person in enumerate(sampled.chosen, 1):
        mrn = (shown or {}).get(person.mrn, "")
        tasks.append(
            Task(
                id=f"{kind.name}_{place}",
                type=kind.name,
                patient=person.mrn,
                mrn=mrn,
                text=instruction(kind, mrn or person.mrn),
                context=kind.context.format(mrn=mrn or person.mrn),
            )
        )
    return tasks


def branches(samples: Mapping[str, TypeSample]) -> Iterator[str]:
    """For each type: from which patients its tasks are, how many are in each branch, and what is missing."""
    for name, (sampled, account, _) in samples.items():
        yield account.words(name)
        counts = ", ".join(f"{count} {words}" for words, count in sampled.branches.items())
        yield f"{name}: patients: {counts or 'none'}"
        yield from (f"{name}: {words}" for words in sampled.missing)
    for name, of_type in samples.items():
        yield from (f"warning: {words}" for words in of_type.account.warnings(name))


def missing(samples: Mapping[str, TypeSample]) -> list[str]:
    """What is missing of each type."""
    return [f"{name}: {words}" for name, of_type in samples.items() for words in of_type.tasks.missing]


def accounts_of(samples: Mapping[str, TypeSample]) -> dict[str, Any]:
    """The parts of a manifest that say from which patients the tasks are."""
    return {
        "accounts": {name: of_type.account for name, of_type in samples.items()},
        "left_out": {name: of_type.left_out for name, of_type in samples.items() if of_type.left_out},
    }
