"""Makes sets of tasks or questions about a generated hospital, for benchmarks whose sets differ only in their tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Generic, TypeVar

from fhir_server.synthetic import lines
from fhir_server.synthetic.bundled import PROFILE, hospital
from medagent.benchmarks.made_folders import (
    MANIFEST,
    Made,
    MadeSet,
    Order,
    counted,
    differing_files,
    make_folder,
    seed_digest,
    seed_number,
    written,
)
from medagent.core.errors import UserError

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
            self._make(again, Order(seed, made.patients, made.per_type), seed, private=made.private)
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
