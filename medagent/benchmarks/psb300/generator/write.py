"""Writes the folder of a task set from a seed, and regenerates one to check every byte."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from fhir_server.synthetic import lines
from fhir_server.synthetic.bundled import PROFILE, hospital
from fhir_server.synthetic.dice import Dice
from medagent.benchmarks import made_folders
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
from medagent.benchmarks.psb300.generator._candidates import Charts
from medagent.benchmarks.psb300.generator._deal import tasks
from medagent.benchmarks.psb300.tasks import BUNDLED, PER_TYPE, TASK_FILE, Manifest
from medagent.core.errors import UserError
from refsol.psb300 import PUBLISHED

GENERATOR = 1
KIND = f"psb-300 {GENERATOR}"
LEAST_PER_TYPE = 2


def make(folder: Path, order: Order) -> Manifest:
    """Make a set in a new or empty folder. Raises UserError, and then removes the files that it wrote."""
    if order.per_type < LEAST_PER_TYPE:
        raise UserError(
            f"--per-type: {order.per_type} is too low; at least {LEAST_PER_TYPE} are needed, one with something due "
            "and one without"
        )
    return make_folder(folder, order.seed, lambda seed: _write(folder, order, seed, private=order.seed is None))


def differing(folder: Path, manifest: Manifest, seed: str) -> list[str]:
    """How the files of a folder differ from what the seed gives, one text per file. Raises UserError."""

    def write(again: Path, made: Made) -> None:
        _write(again, Order(seed, made.patients, made.per_type), seed, private=made.private)

    return made_folders.differing(folder, manifest, seed, GENERATOR, write)


def deal(hospital: Iterable[str], now: datetime, number: int, per_type: int) -> list[dict[str, Any]]:
    """The tasks for a hospital. `number` seeds the random generator. Raises UserError."""
    return list(tasks(Charts(hospital, now), Dice(number), per_type))


def write_bundled(folder: Path, seed: str) -> Manifest:
    """Write the bundled set: tasks from a seed for the bundled hospital, which every installation can generate."""
    counts = Counter[str]()
    dealt = deal(counted(hospital(), counts), PROFILE.now, seed_number(seed, KIND) + 1, PER_TYPE)
    return _write_tasks(folder, dealt, Made.of(GENERATOR, seed, False, Order(seed), counts), BUNDLED)


def _write(folder: Path, order: Order, seed: str, *, private: bool) -> Manifest:
    number, counts = seed_number(seed, KIND), Counter[str]()
    made = written(lines(replace(PROFILE, seed=number, patients=order.patients)), folder)
    dealt = deal(counted(made, counts), PROFILE.now, number + 1, order.per_type)
    return _write_tasks(folder, dealt, Made.of(GENERATOR, seed, private, order, counts), seed_digest(seed)[:12])


def _write_tasks(folder: Path, dealt: list[dict[str, Any]], made: Made, name: str) -> Manifest:
    """Write the tasks and the manifest. The manifest lists the hospital's file if the folder has one."""
    tasks = [{**task, "canary": made.canary} for task in dealt]
    text = json.dumps(tasks, ensure_ascii=False, indent=1) + "\n"
    (folder / TASK_FILE).write_text(text, encoding="utf-8", newline="\n")
    manifest = Manifest(
        name=name,
        now=PROFILE.now,
        clock=PROFILE.now,
        cut_off=PUBLISHED.cut_off,
        files=file_digests(folder, (HOSPITAL, TASK_FILE)),
        made=made,
    )
    write_manifest(folder, manifest)
    return manifest
