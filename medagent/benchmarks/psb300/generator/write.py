"""Makes sets of psb-300 from a seed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from fhir_server.synthetic.bundled import PROFILE
from fhir_server.synthetic.seeded_random import SeededRandom
from medagent.benchmarks.clinical.generation import ClinicalGenerator, Prepared, SampledTasks
from medagent.benchmarks.clinical.tasks import Task
from medagent.benchmarks.generated_sets import seed_number
from medagent.benchmarks.psb300.generator._sampling import hospital_of, tasks
from medagent.benchmarks.psb300.tasks import PSB300, PsbConstants
from medagent.core.errors import UserError
from medagent.engine.data_sets import SetOptions, Split, seed_digest
from refsol.clinical.pairs import Case
from refsol.psb300 import PUBLISHED, RuleConstants
from refsol.psb300.twins import case_of

LEAST_PER_TYPE = 2


class PsbGenerator(ClinicalGenerator):
    """Makes the sets of psb-300. All have the clock of the bundled hospital."""

    version = 3
    benchmark = PSB300

    def check(self, options: SetOptions) -> None:
        if options.per_type < LEAST_PER_TYPE:
            raise UserError(
                f"--per-type: {options.per_type} is too low; at least {LEAST_PER_TYPE} are needed, one with something "
                "due and one without"
            )
        super().check(options)

    def prepare(self, seed: str, options: SetOptions, split: Split | None) -> Prepared:
        if split is not None:
            raise UserError(
                "--split is not available with --like psb-300. To run a part of it: medagent run psb-300 --split"
            )
        number = seed_number(seed, f"{PSB300} {self.version}")
        profile = replace(PROFILE, seed=number, patients=options.patients)
        constants = PsbConstants(grading_clock=PROFILE.now).model_dump(mode="json", exclude_unset=True)
        stated = {"cut_off": PsbConstants().model_dump(mode="json")["cut_off"], **constants}
        return Prepared(profile, number + 1, seed_number(seed_digest(seed), f"{PSB300} injected"), constants=stated)

    def sampled(self, patients: Iterable[str], folder: Path, prepared: Prepared, per_type: int) -> SampledTasks:
        charts = hospital_of(patients)
        return SampledTasks(
            list(tasks(charts, PROFILE.now, SeededRandom(prepared.number), per_type)), charts.resources, PROFILE.now
        )

    def case(self, task: Task, clock: datetime, prepared: Prepared) -> Case:
        return case_of(task.published, clock, RuleConstants(PUBLISHED.cut_off, clock))
