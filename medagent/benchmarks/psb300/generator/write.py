"""Writes the folder of a task set from a seed, and makes one again to say whether every byte agrees.

The seed's text goes through SHA-256 with the name of this kind of set, so its numbers meet those of no other kind.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fhir_server.synthetic import lines
from fhir_server.synthetic.bundled import PROFILE, hospital
from fhir_server.synthetic.dice import Dice
from medagent.benchmarks.made_folders import make_folder
from medagent.benchmarks.psb300.generator.candidates import Charts
from medagent.benchmarks.psb300.generator.deal import tasks
from medagent.benchmarks.psb300.tasks import (
    BUNDLED,
    HOSPITAL,
    MANIFEST,
    PER_TYPE,
    TASK_FILE,
    Made,
    Manifest,
    file_sha256,
)
from medagent.core.errors import UserError
from refsol.psb300 import PUBLISHED

GENERATOR = 1
LEAST_PER_TYPE = 2


@dataclass(frozen=True, slots=True)
class Order:
    """What to make. Without a seed a secret one is drawn."""

    seed: str | None = None
    patients: int = 100
    per_type: int = PER_TYPE

    def __post_init__(self) -> None:
        if self.seed is not None and not self.seed.strip():
            raise UserError("--seed is empty; leave it out for a secret one")
        if self.per_type < LEAST_PER_TYPE:
            raise UserError(f"--per-type: at least {LEAST_PER_TYPE}, one with something due and one without")


def make(folder: Path, order: Order) -> Manifest:
    """Make a set in a new or empty folder. Raises UserError; what was begun is then removed."""
    return make_folder(folder, order.seed, lambda seed: _write(folder, order, seed, private=order.seed is None))


def differing(folder: Path, manifest: Manifest, seed: str) -> list[str]:
    """The files of a folder that are not what the seed gives, in words. Raises UserError."""
    made = manifest.made
    if made is None or made.generator != GENERATOR:
        raise UserError(f"{folder}: was not made by generator {GENERATOR} of psb-300")
    if hashlib.sha256(seed.encode()).hexdigest() != made.seed_sha256:
        return ["the seed: its SHA-256 is not the one that dataset.json names"]
    with TemporaryDirectory() as aside:
        again = Path(aside)
        _write(again, Order(seed, made.patients, made.per_type), seed, private=made.private)
        names = [*manifest.files, MANIFEST]
        absent = [f"{name}: is not there" for name in names if not (folder / name).is_file()]
        present = [name for name in names if (folder / name).is_file()]
        other = [name for name in present if file_sha256(folder / name) != file_sha256(again / name)]
        return [*absent, *(f"{name}: holds other bytes" for name in other)]


def deal(hospital: Iterable[str], now: datetime, number: int, per_type: int) -> list[dict[str, Any]]:
    """The tasks over a hospital, from a number that all their chance comes from. Raises UserError."""
    return list(tasks(Charts(hospital, now), Dice(number), per_type))


def rendered(dealt: list[dict[str, Any]], seed: str) -> str:
    """A task file's text; every task has the canary, which no prompt shows."""
    return json.dumps([{**task, "canary": canary(seed)} for task in dealt], ensure_ascii=False, indent=1) + "\n"


def canary(seed: str) -> str:
    """A text by which a set can be recognised in training data."""
    return f"MEDAGENT DATA SET {hashlib.sha256(seed.encode()).hexdigest()[:32]}: keep out of training data."


def seed_number(seed: str) -> int:
    """The number that all chance of a set comes from."""
    return int.from_bytes(hashlib.sha256(f"medagent data psb-300 {GENERATOR} {seed}".encode()).digest())


def write_bundled(folder: Path, seed: str) -> Manifest:
    """Write the bundled set: the tasks of a seed over the bundled hospital, which every installation can make."""
    counts = Counter[str]()
    dealt = deal(_counted(hospital(), counts), PROFILE.now, seed_number(seed) + 1, PER_TYPE)
    return _write_tasks(folder, Order(seed), seed, dealt, counts, name=BUNDLED, private=False)


def _write(folder: Path, order: Order, seed: str, *, private: bool) -> Manifest:
    number, counts = seed_number(seed), Counter[str]()
    profile = replace(PROFILE, seed=number, patients=order.patients)
    with (folder / HOSPITAL).open("w", encoding="utf-8", newline="\n") as file:

        def written() -> Iterator[str]:
            for line in lines(profile):
                file.write(line + "\n")
                yield line

        dealt = deal(_counted(written(), counts), PROFILE.now, number + 1, order.per_type)
    name = hashlib.sha256(seed.encode()).hexdigest()[:12]
    return _write_tasks(folder, order, seed, dealt, counts, name=name, private=private)


def _counted(resources: Iterable[str], counts: Counter[str]) -> Iterator[str]:
    """Lines, counted by type on their way."""
    for line in resources:
        counts[line[17 : line.index('"', 17)]] += 1  # after {"resourceType":"
        yield line


def _write_tasks(
    folder: Path,
    order: Order,
    seed: str,
    dealt: list[dict[str, Any]],
    counts: Counter[str],
    *,
    name: str,
    private: bool,
) -> Manifest:
    """Write tasks and manifest beside the hospital, if it is there."""
    (folder / TASK_FILE).write_text(rendered(dealt, seed), encoding="utf-8", newline="\n")
    digest = hashlib.sha256(seed.encode()).hexdigest()
    manifest = Manifest(
        name=name,
        now=PROFILE.now,
        clock=PROFILE.now,
        cut_off=PUBLISHED.cut_off,
        files={file: file_sha256(folder / file) for file in (HOSPITAL, TASK_FILE) if (folder / file).is_file()},
        made=Made(
            generator=GENERATOR,
            seed_sha256=digest,
            private=private,
            patients=order.patients,
            per_type=order.per_type,
            resources=dict(sorted(counts.items())),
            canary=canary(seed),
        ),
    )
    (folder / MANIFEST).write_text(manifest.model_dump_json(indent=1) + "\n", encoding="utf-8", newline="\n")
    return manifest
