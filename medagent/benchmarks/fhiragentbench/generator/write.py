"""Writes the folder of a set of questions from a seed, and regenerates one to check every byte."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fhir_server.synthetic.bundled import PROFILE
from fhir_server.synthetic.dice import Dice
from medagent.benchmarks.fhiragentbench.generator._charts import read_charts
from medagent.benchmarks.fhiragentbench.generator._deal import deal
from medagent.benchmarks.fhiragentbench.sets import QUESTIONS, SYNTHETIC, QuestionSetManifest
from medagent.benchmarks.made_folders import HOSPITAL, Made, SetGenerator, file_digests, write_manifest
from refsol.fhiragentbench import Question, questions_text

TYPES = 10
"""A set contains ten times `--per-type` questions, so that it is as large as the sets of other benchmarks."""


def _deal(hospital: Iterable[str], number: int, per_type: int) -> list[Question]:
    return deal(read_charts(hospital), PROFILE.now, Dice(number), TYPES * per_type)


def _write(folder: Path, questions: list[Question], made: Made, name: str) -> QuestionSetManifest:
    """Write the questions and the manifest. The manifest lists the hospital's file if the folder contains one."""
    (folder / QUESTIONS).write_text(questions_text(questions), encoding="utf-8", newline="\n")
    manifest = QuestionSetManifest(name=name, files=file_digests(folder, (HOSPITAL, QUESTIONS)), made=made)
    write_manifest(folder, manifest)
    return manifest


_LEAST = (1, f"at least 1 is needed, which makes {TYPES} questions")
GENERATOR = SetGenerator("fhir-agentbench", 2, SYNTHETIC, _LEAST, _deal, _write)
