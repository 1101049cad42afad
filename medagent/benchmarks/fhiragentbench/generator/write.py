"""Writes the folder of a set of questions from a seed, and regenerates one to check every byte."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from fhir_server.synthetic import lines
from fhir_server.synthetic.bundled import PROFILE, hospital
from fhir_server.synthetic.dice import Dice
from medagent.benchmarks import made_folders
from medagent.benchmarks.fhiragentbench._places import QUESTIONS
from medagent.benchmarks.fhiragentbench.generator._charts import read_charts
from medagent.benchmarks.fhiragentbench.generator._deal import deal
from medagent.benchmarks.fhiragentbench.sets import SYNTHETIC, Manifest
from medagent.benchmarks.made_folders import (
    HOSPITAL,
    Made,
    Order,
    counted,
    file_digests,
    make_folder,
    seed_digest,
    seed_number,
    write_manifest,
    written,
)
from medagent.core.errors import UserError
from refsol.fhiragentbench import Question, questions_text

GENERATOR = 1
KIND = f"fhir-agentbench {GENERATOR}"
TYPES = 10
"""A set has ten times `--per-type` questions, so that it is as large as the sets of other benchmarks."""


def make(folder: Path, order: Order) -> Manifest:
    """Make a set in a new or empty folder. Raises UserError, and then removes the files that it wrote."""
    if order.per_type < 1:
        raise UserError(f"--per-type: {order.per_type} is too low; at least 1 is needed, which makes {TYPES} questions")
    return make_folder(folder, order.seed, lambda seed: _write(folder, order, seed, private=order.seed is None))


def differing(folder: Path, manifest: Manifest, seed: str) -> list[str]:
    """How the files of a folder differ from what the seed gives, one text per file. Raises UserError."""

    def write(again: Path, made: Made) -> None:
        _write(again, Order(seed, made.patients, made.per_type), seed, private=made.private)

    return made_folders.differing(folder, manifest, seed, GENERATOR, write)


def write_bundled(folder: Path, seed: str) -> Manifest:
    """Write the bundled set: questions from a seed for the bundled hospital, which every installation can generate."""
    order, counts = Order(seed), Counter[str]()
    questions = _deal(counted(hospital(), counts), seed_number(seed, KIND) + 1, order)
    return _write_questions(folder, questions, Made.of(GENERATOR, seed, False, order, counts), SYNTHETIC)


def _write(folder: Path, order: Order, seed: str, *, private: bool) -> Manifest:
    number, counts = seed_number(seed, KIND), Counter[str]()
    made = written(lines(replace(PROFILE, seed=number, patients=order.patients)), folder)
    questions = _deal(counted(made, counts), number + 1, order)
    return _write_questions(folder, questions, Made.of(GENERATOR, seed, private, order, counts), seed_digest(seed)[:12])


def _deal(patients: Iterable[str], number: int, order: Order) -> list[Question]:
    return deal(read_charts(patients), PROFILE.now, Dice(number), TYPES * order.per_type)


def _write_questions(folder: Path, questions: Sequence[Question], made: Made, name: str) -> Manifest:
    """Write the questions and the manifest. The manifest lists the hospital's file if the folder has one."""
    (folder / QUESTIONS).write_text(questions_text(questions), encoding="utf-8", newline="\n")
    manifest = Manifest(name=name, files=file_digests(folder, (HOSPITAL, QUESTIONS)), made=made)
    write_manifest(folder, manifest)
    return manifest
