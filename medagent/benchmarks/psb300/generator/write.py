"""Writes the folder of a task set from a seed, and regenerates one to check every byte."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fhir_server.synthetic.bundled import PROFILE
from fhir_server.synthetic.dice import Dice
from medagent.benchmarks._set_generator import SetGenerator
from medagent.benchmarks.made_folders import HOSPITAL, Made, Order, file_digests, write_manifest
from medagent.benchmarks.psb300.generator._candidates import Charts
from medagent.benchmarks.psb300.generator._deal import tasks
from medagent.benchmarks.psb300.tasks import BUNDLED, TASK_FILE, Manifest
from medagent.core.errors import UserError
from refsol.psb300 import PUBLISHED

LEAST_PER_TYPE = 2


def make(folder: Path, order: Order) -> Manifest:
    """Make a set in a new or empty folder. Raises UserError, and then removes the files that it wrote."""
    if order.per_type < LEAST_PER_TYPE:
        raise UserError(
            f"--per-type: {order.per_type} is too low; at least {LEAST_PER_TYPE} are needed, one with something due "
            "and one without"
        )
    return _GENERATOR.make(folder, order)


def differing(folder: Path, manifest: Manifest, seed: str) -> list[str]:
    """See `SetGenerator.differing`."""
    return _GENERATOR.differing(folder, manifest, seed)


def write_bundled(folder: Path, seed: str) -> Manifest:
    """See `SetGenerator.make_bundled`."""
    return _GENERATOR.make_bundled(folder, seed, BUNDLED)


def _deal(hospital: Iterable[str], number: int, per_type: int) -> list[dict[str, Any]]:
    return list(tasks(Charts(hospital, PROFILE.now), Dice(number), per_type))


def _write(folder: Path, dealt: list[dict[str, Any]], made: Made, name: str) -> Manifest:
    """Write the tasks and the manifest. The manifest lists the hospital's file if the folder has one."""
    text = json.dumps([{**task, "canary": made.canary} for task in dealt], ensure_ascii=False, indent=1) + "\n"
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


_GENERATOR = SetGenerator("psb-300", 1, _deal, _write)
