"""Folders that `medagent data new` makes from a seed.

A folder contains a hospital, the tasks or questions about it, and `dataset.json` with the digest of each file. If the
seed was chosen at random, the folder contains it too. If making a folder fails, its files are removed.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from pydantic import BaseModel

from fhir_server.synthetic import HospitalProfile, lines
from medagent.core.errors import UserError
from medagent.core.writing import file_digest, writing
from medagent.engine.data_sets import MANIFEST, GeneratedSet, SetManifest, SetOptions, Split, read_manifest, seed_digest

SEED, HOSPITAL = "seed.txt", "hospital.ndjson"
"""Files of a folder: the seed (if it was chosen at random), and the patients."""
PRIVATE_BITS = 128
LEAST_PATIENTS = 2
"""A new hospital contains pairs of similar patients."""

T = TypeVar("T")


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


def stored_seed(folder: Path) -> str:
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
    different = [name for name in present if file_digest(folder / name) != file_digest(again / name)]
    return [*absent, *(f"{name}: its bytes differ" for name in different)]


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


def set_hospital(folder: Path) -> Path:
    """The file of patients in a set's folder. Raises UserError if there is none."""
    files = read_manifest(folder).files
    if HOSPITAL not in files:
        raise UserError(f"--dataset {folder}: contains no patients; pass synthetic or a folder from `data new`")
    return checked_file(folder, files, HOSPITAL)


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


def seed_number(text: str, kind: str) -> int:
    """The number that seeds the random generator of a set. Sets of different kinds have different numbers."""
    return int.from_bytes(hashlib.sha256(f"medagent data {kind} {text}".encode()).digest())


def _write_secret(path: Path, text: str) -> None:
    """Write a file that only its owner can ever read."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(text)


@dataclass(frozen=True, slots=True)
class SetRequest:
    """A set to generate. `split` replaces the one of the options. `bundled` is the name of a set over the bundled
    hospital, which is not copied.
    """

    options: SetOptions
    seed: str
    private: bool = False
    split: Split | None = None
    bundled: str = ""


class SetGenerator(ABC):
    """Makes the sets of one benchmark."""

    version: int
    """Another version makes other bytes from the same seed."""
    kinds: Sequence[str] = ()
    """See `SetMaker.kinds`."""

    @abstractmethod
    def write(self, folder: Path, request: SetRequest) -> GeneratedSet:
        """Write a set into an empty folder. Raises UserError."""

    def check(self, options: SetOptions) -> None:
        """Raises UserError for options with which no set can be made."""
        if options.ehr is None and options.patients < LEAST_PATIENTS:
            raise UserError(f"--patients: {options.patients} is too low; at least {LEAST_PATIENTS} are needed")
        if options.per_type < 1:
            raise UserError(f"--per-type: {options.per_type} is too low; at least 1 task of each type is needed")

    def make(self, folder: Path, options: SetOptions) -> GeneratedSet:
        """Make a set in a new or empty folder. Raises UserError, and then removes the files that it wrote."""
        self.check(options)
        private = options.seed is None
        return make_folder(
            folder, options.seed, lambda seed: self.write(folder, SetRequest(options, seed, private=private))
        )

    def differing(self, folder: Path, manifest: SetManifest, seed: str, ehr: Path | None) -> list[str]:
        """How the files of a folder differ from what the seed gives, one text per file.

        The set is regenerated in another folder. Raises UserError for a folder of another generator.
        """
        generation = manifest.generated
        if generation is None or generation.generator != self.version:
            raise UserError(
                f"{folder}: was not made by generator {self.version} of its benchmark; it cannot be checked"
            )
        if seed_digest(seed) != generation.seed_sha256:
            return [f"the seed: its SHA-256 is not the one in {MANIFEST}"]
        with TemporaryDirectory() as aside:
            again, options = Path(aside), generation.options(seed, ehr)
            self.write(again, SetRequest(options, seed, private=generation.private, split=generation.split))
            return differing_files(folder, again, manifest.files)


def new_hospital(profile: HospitalProfile, folder: Path) -> Iterator[str]:
    """Write a generated hospital into a folder, and yield its lines."""
    return written(lines(profile), folder)
