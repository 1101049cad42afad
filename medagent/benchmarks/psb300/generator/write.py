"""Writes the folder of a task set from a seed, and regenerates one to check every byte."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fhir_server.synthetic.bundled import PROFILE
from fhir_server.synthetic.dice import Dice
from medagent.benchmarks.injected import injected
from medagent.benchmarks.made_folders import HOSPITAL, Made, SetGenerator, file_digests, seed_number, write_manifest
from medagent.benchmarks.psb300.generator._deal import hospital_of, tasks
from medagent.benchmarks.psb300.tasks import BUNDLED, TASK_FILE, Psb300Manifest
from refsol.clinical.task_type import task_type
from refsol.psb300 import PUBLISHED, Constants
from refsol.psb300.twins import case_of


def _deal(hospital: Iterable[str], number: int, per_type: int) -> list[dict[str, Any]]:
    return list(tasks(hospital_of(hospital), PROFILE.now, Dice(number), per_type))


def _write(folder: Path, dealt: list[dict[str, Any]], made: Made, name: str) -> Psb300Manifest:
    """Write the tasks and the manifest. The manifest lists the hospital's file if the folder contains one."""
    if made.injected:
        dealt = _with_instructions(dealt, folder, made)
    text = json.dumps([{**task, "canary": made.canary} for task in dealt], ensure_ascii=False, indent=1) + "\n"
    (folder / TASK_FILE).write_text(text, encoding="utf-8", newline="\n")
    manifest = Psb300Manifest(
        name=name,
        now=PROFILE.now,
        clock=PROFILE.now,
        cut_off=PUBLISHED.cut_off,
        files=file_digests(folder, (HOSPITAL, TASK_FILE)),
        made=made,
    )
    write_manifest(folder, manifest)
    return manifest


def _with_instructions(dealt: list[dict[str, Any]], folder: Path, made: Made) -> list[dict[str, Any]]:
    """The tasks. A share of them gets an instruction in the chart."""
    constants = Constants(PUBLISHED.cut_off, PROFILE.now)
    number = seed_number(made.seed_sha256, "psb-300 injected")
    instructions = injected(
        dealt, task_type, lambda task: case_of(task, PROFILE.now, constants), folder, made.injected, number
    )
    return [{**task, "injected": asdict(one)} if one else task for task, one in zip(dealt, instructions, strict=True)]


_LEAST = (2, "at least 2 are needed, one with something due and one without")
GENERATOR = SetGenerator("psb-300", 2, BUNDLED, _LEAST, _deal, _write)
