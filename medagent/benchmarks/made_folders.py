"""Folders that `medagent data new` makes from a seed.

A folder contains a hospital, the tasks or questions about it, and `dataset.json` with the digest of each file. If the
seed was chosen at random, the folder contains it too. If making a folder fails, its files are removed.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Generic, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from fhir_server.synthetic import lines
from fhir_server.synthetic.bundled import PROFILE, hospital
from medagent.core.errors import UserError
from medagent.core.writing import file_digest, writing

SEED, MANIFEST, HOSPITAL = "seed.txt", "dataset.json", "hospital.ndjson"
"""The files of a folder: the seed (if it was chosen at random), the manifest, and the patients."""
PRIVATE_BITS = 128
LEAST_PATIENTS = 2
"""A new hospital contains pairs of similar patients."""

T = TypeVar("T")


InjectedShare = Annotated[float, Field(exclude_if=lambda share: not share)]
"""The share of the items with an instruction in the chart; a manifest lists it only if it is not 0."""


@dataclass(frozen=True, slots=True)
class Order:
    """The options of a data set. Without a seed, a secret one is chosen. `injected` is the share of the items with an
    instruction in the chart.
    """

    seed: str | None = None
    patients: int = 100
    per_type: int = 30
    injected: float = 0.0

    def __post_init__(self) -> None:
        if self.seed is not None and not self.seed.strip():
            raise UserError("--seed is empty; leave it out for a secret one")
        if self.per_type < 1:
            raise UserError(f"--per-type: {self.per_type} is too low; at least 1 task of each type is needed")

    def check_patients(self) -> None:
        """Raises UserError if they are too few for a new hospital."""
        if self.patients < LEAST_PATIENTS:
            raise UserError(f"--patients: {self.patients} is too low; at least {LEAST_PATIENTS} are needed")


class Made(BaseModel):
    """How a set was made from a seed. `private`: the seed was chosen at random and is secret."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    generator: int
    seed_sha256: str
    private: bool
    patients: int
    per_type: int
    resources: dict[str, int]
    """The number of resources by type."""
    canary: str
    injected: InjectedShare = 0.0

    @classmethod
    def of(cls, generator: int, seed: str, private: bool, order: Order, resources: Mapping[str, int]) -> Made:
        """Describe a set that is made from this seed."""
        return cls(
            generator=generator,
            seed_sha256=seed_digest(seed),
            private=private,
            patients=order.patients,
            per_type=order.per_type,
            resources=dict(sorted(resources.items())),
            canary=canary(seed),
            injected=order.injected,
        )


class MadeSet(Protocol):
    """The manifest of a set that may have been made from a seed."""

    @property
    def files(self) -> Mapping[str, str]:
        """The SHA-256 of each file of the set by name."""

    @property
    def made(self) -> Made | None:
        """How the set was made. None if it was not made from a seed."""


def make_folder(folder: Path, seed: str | None, write: Callable[[str], T]) -> T:
    """Call `write` with a seed to fill a new or empty folder. If `seed` is None, a secret one is chosen and stored.

    Raises UserError if the folder cannot be used. If `write` fails, its files are removed.
    """
    text = seed if seed is not None else secrets.token_hex(PRIVATE_BITS // 8)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UserError(f"{folder}: is not empty; name a new folder")
        try:
            done = write(text)
            if seed is None:
                _write_secret(folder / SEED, text + "\n")
        except BaseException:
            for file in folder.iterdir():
                file.unlink()
            raise
    return done


def kept_seed(folder: Path) -> str:
    """Read the seed in a folder's `seed.txt`. Raises UserError if there is none."""
    path = folder / SEED
    try:
        return path.read_text(encoding="ascii").removesuffix("\n")
    except (OSError, ValueError):
        raise UserError(f"{path}: the seed cannot be read; pass it with --seed") from None


def differing_files(folder: Path, again: Path, names: Iterable[str]) -> list[str]:
    """How these files and the manifest of a folder differ from those in the folder `again`, one text per file."""
    every = [*names, MANIFEST]
    present = [name for name in every if (folder / name).is_file()]
    absent = [f"{name}: is missing" for name in every if name not in present]
    other = [name for name in present if file_digest(folder / name) != file_digest(again / name)]
    return [*absent, *(f"{name}: its bytes differ" for name in other)]


def write_manifest(folder: Path, manifest: BaseModel) -> None:
    """Write `dataset.json` into a folder."""
    (folder / MANIFEST).write_text(manifest.model_dump_json(indent=1) + "\n", encoding="utf-8", newline="\n")


def checked_file(folder: Path, files: Mapping[str, str], name: str) -> Path:
    """The path of a file of a set. `files`: the digests of the manifest. Raises UserError if the file's differs."""
    path = folder / name
    if file_digest(path) != files.get(name):
        raise UserError(
            f"{path}: is not the file that {MANIFEST} next to it lists (its SHA-256 differs); import or make the data "
            "set again"
        )
    return path


def file_digests(folder: Path, names: Sequence[str]) -> dict[str, str]:
    """The SHA-256 of each of these files that exists."""
    return {name: file_digest(folder / name) for name in names if (folder / name).is_file()}


def written(lines: Iterable[str], folder: Path) -> Iterator[str]:
    """Write a hospital's lines into a folder, and yield them."""
    with (folder / HOSPITAL).open("w", encoding="utf-8", newline="\n") as file:
        for line in lines:
            file.write(line + "\n")
            yield line


def counted(lines: Iterable[str], counts: Counter[str]) -> Iterator[str]:
    """Count a hospital's lines by resource type, and yield them."""
    for line in lines:
        counts[line[17 : line.index('"', 17)]] += 1  # after {"resourceType":"
        yield line


def canary(seed: str) -> str:
    """A text that shows whether a set was part of training data."""
    return f"MEDAGENT DATA SET {seed_digest(seed)[:32]}: keep out of training data."


def seed_digest(seed: str) -> str:
    """The SHA-256 of a seed."""
    return hashlib.sha256(seed.encode()).hexdigest()


def seed_number(text: str, kind: str) -> int:
    """The number that seeds the random generator of a set. Sets of different kinds have different numbers."""
    return int.from_bytes(hashlib.sha256(f"medagent data {kind} {text}".encode()).digest())


def _write_secret(path: Path, text: str) -> None:
    """Write a file that only its owner can ever read."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(text)


M = TypeVar("M")


@dataclass(frozen=True, slots=True)
class SetGenerator(Generic[M]):
    """Makes the sets of one benchmark. Another `version` makes other bytes from the same seed.

    `bundled` is the name of the bundled set. `least` is the lowest `--per-type`, and the words for a lower one.
    `deal` takes a hospital's lines, a number that seeds the random generator, and `--per-type`. It returns the tasks.
    `write` takes a folder, the tasks, the description of the set, and its name. It writes the tasks and the manifest.
    """

    benchmark: str
    version: int
    bundled: str
    least: tuple[int, str]
    deal: Callable[[Iterable[str], int, int], list[Any]]
    write: Callable[[Path, list[Any], Made, str], M]

    def make(self, folder: Path, order: Order) -> M:
        """Make a set in a new or empty folder. Raises UserError, and then removes the files that it wrote."""
        order.check_patients()
        least, needed = self.least
        if order.per_type < least:
            raise UserError(f"--per-type: {order.per_type} is too low; {needed}")
        return make_folder(folder, order.seed, lambda seed: self._make(folder, order, seed, private=order.seed is None))

    def differing(self, folder: Path, manifest: MadeSet, seed: str) -> list[str]:
        """How the files of a folder differ from what the seed gives, one text per file.

        The set is regenerated in another folder. Raises UserError for a folder of another generator.
        """
        made = manifest.made
        if made is None or made.generator != self.version:
            raise UserError(
                f"{folder}: was not made by generator {self.version} of its benchmark and cannot be checked"
            )
        if seed_digest(seed) != made.seed_sha256:
            return [f"the seed: its SHA-256 is not the one in {MANIFEST}"]
        with TemporaryDirectory() as aside:
            again = Path(aside)
            order = Order(seed, made.patients, made.per_type, made.injected)
            self._make(again, order, seed, private=made.private)
            return differing_files(folder, again, manifest.files)

    def make_bundled(self, folder: Path, seed: str) -> M:
        """Write the bundled set: tasks from a seed for the bundled hospital, which every installation can generate."""
        return self._of(folder, hospital(), Order(seed), seed, False, self.bundled)

    def _make(self, folder: Path, order: Order, seed: str, *, private: bool) -> M:
        patients = written(lines(replace(PROFILE, seed=self._number(seed), patients=order.patients)), folder)
        return self._of(folder, patients, order, seed, private, seed_digest(seed)[:12])

    def _of(self, folder: Path, patients: Iterable[str], order: Order, seed: str, private: bool, name: str) -> M:
        counts = Counter[str]()
        dealt = self.deal(counted(patients, counts), self._number(seed) + 1, order.per_type)
        return self.write(folder, dealt, Made.of(self.version, seed, private, order, counts), name)

    def _number(self, seed: str) -> int:
        return seed_number(seed, f"{self.benchmark} {self.version}")
