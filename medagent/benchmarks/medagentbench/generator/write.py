"""Makes sets of MedAgentBench from a seed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Literal, get_args

from fhir_server.synthetic.seeded_random import SeededRandom
from medagent.benchmarks.clinical.generation import ClinicalGenerator, Prepared, SampledTasks
from medagent.benchmarks.clinical.tasks import Task
from medagent.benchmarks.generated_sets import seed_number
from medagent.benchmarks.medagentbench.generator._profile import profile, shifted
from medagent.benchmarks.medagentbench.generator._sampling import TaskSampler, hospital_of
from medagent.benchmarks.medagentbench.tasks.dataset import MEDAGENTBENCH, stated_constants
from medagent.core.errors import UserError
from medagent.engine.data_sets import SetOptions, Split, seed_digest
from refsol.clinical.pairs import Case
from refsol.medagentbench.constants import PUBLISHED, Constants
from refsol.medagentbench.twins import case_of

Like = Literal["bundled", "full", "shift"]
GENERATOR = 5
PATIENTS, PER_TYPE = 100, 30
LEAST_PATIENTS = 20


class MabGenerator(ClinicalGenerator):
    """Makes the sets of MedAgentBench: like the bundled one, of full size, or with shifted constants."""

    version = GENERATOR
    benchmark = MEDAGENTBENCH
    kinds = get_args(Like)
    has_splits = True
    repeats_patients = True

    def check(self, options: SetOptions) -> None:
        like = self.like(options)
        if options.split == "ood" and like != "shift":
            raise UserError(f"--split ood needs --like shift, not --like {like}: it is a shift set in other words")
        if options.split == "test" and options.seed is not None:
            raise UserError("--split test always uses a secret seed: leave --seed out")
        if options.patients < LEAST_PATIENTS:
            raise UserError(
                f"--patients: {options.patients} is too low; at least {LEAST_PATIENTS} are needed to have patients in "
                "every branch"
            )
        if options.per_type < 3:
            raise UserError(
                f"--per-type: {options.per_type} is too low; at least 3 are needed, because v1 gets a third of the "
                "tasks"
            )

    def like(self, options: SetOptions) -> Like:
        """See `ClinicalGenerator.like`. Raises UserError for an unknown kind."""
        stated = options.like or ("shift" if options.split == "ood" else "bundled")
        for like in get_args(Like):
            if like == stated:
                kind: Like = like
                return kind
        raise UserError(f"--like: {stated!r} is unknown; known: {', '.join(self.kinds)}")

    def prepare(self, seed: str, options: SetOptions, split: Split | None) -> Prepared:
        like = self.like(options)
        number = set_number(seed, like, split)
        constants = constants_for(like, number)
        hospital = profile(constants, like, seed=number, patients=options.patients)
        return Prepared(hospital, number + 2, number + 3, split, stated_constants(constants), constants)

    def sampled(self, patients: Iterable[str], folder: Path, prepared: Prepared, per_type: int) -> SampledTasks:
        constants = prepared.rules
        charts = hospital_of(patients, constants)
        sampler = TaskSampler(SeededRandom(prepared.number), constants, charts, prepared.split)
        return SampledTasks(list(sampler.tasks(per_type)), charts.resources, constants.now)

    def case(self, task: Task, clock: datetime, prepared: Prepared) -> Case:
        return case_of(task.published, prepared.rules)

    def name(self, seed: str, options: SetOptions, split: Split | None) -> str:
        return f"{split or self.like(options)}-{seed_digest(seed)[:12]}"

    def parts(self, tasks: Sequence[Task], per_type: int) -> Mapping[str, tuple[str, ...]]:
        """See `ClinicalGenerator.parts`. v1 contains the first third of the tasks of each type."""
        return {"v1": tuple(task.id for task in tasks if int(task.id.partition("_")[2]) <= per_type // 3)}


def constants_for(like: Like, number: int) -> Constants:
    """The constants of a set: sampled for a shift set, otherwise the published ones."""
    return shifted(SeededRandom(number + 1)) if like == "shift" else PUBLISHED


def set_number(seed: str, like: Like, split: Split | None) -> int:
    """The number that seeds the random generator of a set."""
    return seed_number(seed, f"{GENERATOR} {like} {split or 'any'}")
