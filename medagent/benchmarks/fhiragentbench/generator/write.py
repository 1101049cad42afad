"""Makes sets of questions from a seed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

from fhir_server.synthetic.bundled import PROFILE, hospital
from fhir_server.synthetic.seeded_random import SeededRandom
from medagent.benchmarks.fhiragentbench.generator._charts import read_charts
from medagent.benchmarks.fhiragentbench.generator._sampling import sample
from medagent.benchmarks.fhiragentbench.sets import FHIR_AGENTBENCH, QUESTIONS
from medagent.benchmarks.generated_sets import (
    HOSPITAL,
    SetGenerator,
    SetRequest,
    counted,
    file_digests,
    new_hospital,
    seed_number,
    write_manifest,
)
from medagent.core.errors import UserError
from medagent.engine.data_sets import GeneratedSet, Generation, SetManifest, SetOptions, seed_digest
from refsol.fhiragentbench import questions_text

TYPES = 10
"""A set contains ten times `--per-type` questions, so that it is as large as the sets of other benchmarks."""


class QuestionGenerator(SetGenerator):
    """Makes the sets of FHIR-AgentBench. All have the clock of the bundled hospital."""

    version = 3

    def check(self, options: SetOptions) -> None:
        if options.per_type < 1:
            raise UserError(
                f"--per-type: {options.per_type} is too low; at least 1 is needed, which makes {TYPES} questions"
            )
        if options.split is not None:
            raise UserError("--split is not available with --like fhir-agentbench")
        if options.injected:
            raise UserError("--injected needs tasks with rules over a chart, which fhir-agentbench does not have")
        super().check(options)

    def write(self, folder: Path, request: SetRequest) -> GeneratedSet:
        options, seed = request.options, request.seed
        number, counts = seed_number(seed, f"{FHIR_AGENTBENCH} {self.version}"), Counter[str]()
        profile = replace(PROFILE, seed=number, patients=options.patients)
        patients = hospital() if request.bundled else new_hospital(profile, folder)
        charts = read_charts(counted(patients, counts))
        questions = sample(charts, PROFILE.now, SeededRandom(number + 1), TYPES * options.per_type)
        (folder / QUESTIONS).write_text(questions_text(questions), encoding="utf-8", newline="\n")
        generation = Generation.of(self.version, seed, request.private, options, counts)
        manifest = SetManifest(
            name=request.bundled or seed_digest(seed)[:12],
            benchmark=FHIR_AGENTBENCH,
            clock=PROFILE.now,
            files=file_digests(folder, (HOSPITAL, QUESTIONS)),
            generated=generation,
        )
        write_manifest(folder, manifest)
        return GeneratedSet(manifest.name, generation, len(questions))
