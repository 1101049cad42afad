"""`dataset.json`: what the folder of a set contains, and how it was made."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Protocol

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from medagent.core.errors import UserError
from medagent.engine.accounts import Account
from refsol.files import json_object, read_json
from refsol.schema import validator

MANIFEST = "dataset.json"
BEGUN = "origin.json"
"""A file in the folder of a set over a hospital's own server while the set is not finished."""
FORMAT = 1
"""The version of the format of sets."""
BASE = "http://localhost:8080/fhir/"
Split = Literal["train", "dev", "test", "ood"]
_if_set = Field(exclude_if=lambda value: not value)


@dataclass(frozen=True, slots=True)
class SetOptions:
    """The options of a data set. Without a seed, a secret one is chosen. `injected` is the share of the items with an
    instruction in the chart, `ehr` a file of patients instead of a new hospital.
    """

    like: str = ""
    split: Split | None = None
    seed: str | None = None
    patients: int = 100
    per_type: int = 30
    injected: float = 0.0
    ehr: Path | None = None

    def __post_init__(self) -> None:
        if self.seed is not None and not self.seed.strip():
            raise UserError("--seed is empty; leave it out for a secret one")


class Generation(BaseModel):
    """How a set was made from a seed. `private`: the seed was chosen at random and is secret."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    generator: int
    """The version of the generator; another version makes other bytes. 0: a set of twins."""
    seed_sha256: str
    private: bool
    like: Annotated[str, _if_set] = ""
    split: Annotated[Split | None, _if_set] = None
    patients: int
    per_type: int
    resources: dict[str, int]
    """The number of resources by type."""
    canary: str
    injected: Annotated[float, _if_set] = 0.0
    """The share of the items with an instruction in the chart."""
    server: Annotated[str, _if_set] = ""
    """The digest of the address of the hospital's server, if the set is about its patients."""
    id_system: Annotated[str, _if_set] = ""
    """The system of the identifiers that texts show instead of the ids of Patients."""
    twins_of: Annotated[str, _if_set] = ""
    """The digest of the tasks of which these are twins."""

    @classmethod
    def of(
        cls, generator: int, seed: str, private: bool, options: SetOptions, resources: Mapping[str, int]
    ) -> Generation:
        """Describe a set that is made from this seed."""
        return cls(
            generator=generator,
            seed_sha256=seed_digest(seed),
            private=private,
            like=options.like,
            split=options.split,
            patients=options.patients,
            per_type=options.per_type,
            resources=dict(sorted(resources.items())),
            canary=canary(seed),
            injected=options.injected,
        )

    @classmethod
    def of_twins(cls, digest: str, patients: int) -> Generation:
        """Describe twins of tasks (by their digest) that were not generated."""
        return cls.of(0, digest, False, SetOptions(patients=patients, per_type=1), {}).twins(digest)

    def twins(self, digest: str) -> Generation:
        """Describe twins of tasks (by their digest) of this set."""
        return self.model_copy(update={"twins_of": digest, "private": False})

    def options(self, seed: str, ehr: Path | None = None) -> SetOptions:
        """The options that make the set again."""
        split = None if self.split == "test" else self.split  # the seed of a retired test set may be public
        return SetOptions(self.like, split, seed, self.patients, self.per_type, self.injected, ehr)


@dataclass(frozen=True, slots=True)
class GeneratedSet:
    """A set that was made: its name, how, its number of tasks, and what to tell the user about its types."""

    name: str
    generation: Generation
    tasks: int
    lines: Sequence[str] = ()


class ImportedData(NamedTuple):
    """What `data import` prints about imported data."""

    message: str
    warnings: Sequence[str] = ()


class SetMaker(Protocol):
    """Makes the data sets of a benchmark from seeds."""

    @property
    def kinds(self) -> Sequence[str]:
        """The kinds of sets that `SetOptions.like` names; empty if there is only one."""

    def make(self, folder: Path, options: SetOptions) -> GeneratedSet:
        """Make a set in a new or empty folder. Raises UserError."""

    def differing(self, folder: Path, manifest: SetManifest, seed: str, ehr: Path | None) -> list[str]:
        """How the files of a set differ from what its seed gives, one text per file. Raises UserError."""


class TwinSet(Protocol):
    """A set of twins that was made."""

    @property
    def words(self) -> Iterator[str]:
        """A line for each type."""

    @property
    def noun(self) -> str:
        """What twins are together: `pairs` or `triples`."""

    @property
    def size(self) -> tuple[int, int]:
        """The number of pairs or triples, and of items."""


@dataclass(frozen=True, slots=True)
class PresentSet:
    """A data set: its name, version, number of items, digest and folder. Without a digest, it is not imported yet."""

    name: str
    version: str
    items: int
    digest: str
    folder: Path


class SetManifest(BaseModel):
    """The content of `dataset.json`. A new field needs a default, so that earlier sets stay readable."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int = FORMAT
    name: str
    benchmark: str
    """The benchmark that runs the set: a name, or `custom` for a file of task types."""
    clock: AwareDatetime
    """The time of the tasks."""
    base: str = BASE
    """The FHIR base URL that agents are shown."""
    constants: Annotated[Mapping[str, Any], _if_set] = {}
    """What else the rules of the benchmark's types need, such as thresholds."""
    parts: Annotated[Mapping[str, tuple[str, ...]], _if_set] = {}
    """Named parts of the set, with the ids of their tasks."""
    files: Mapping[str, str]
    """The SHA-256 of each file by name."""
    generated: Generation | None = None
    """How the set was made; None for an imported one."""
    accounts: Annotated[Mapping[str, Account], _if_set] = {}
    """By type from which patients its tasks were sampled."""
    left_out: Annotated[Mapping[str, Mapping[str, tuple[str, ...]]], _if_set] = {}
    """By type and reason the ids of the patients that were left out."""

    @property
    def canary(self) -> str:
        """The text that identifies the set in training data; empty if there is none."""
        return self.generated.canary if self.generated else ""


def is_set(folder: Path) -> bool:
    """Whether a folder contains a set."""
    return (folder / MANIFEST).is_file()


def read_manifest(folder: Path) -> SetManifest:
    """Read a set's `dataset.json`. Raises UserError, in one line for a format of another version."""
    path = folder / MANIFEST
    expected = "a set's manifest is expected, as `medagent data new` writes it"
    if (folder / BEGUN).is_file() and not path.is_file():
        raise UserError(f"{folder}: is not finished; run its `medagent data new` again to continue it")
    document = read_json(path, json_object, expected=expected, error=UserError)
    if document.get("format") != FORMAT:
        stated = f"format {document['format']}" if "format" in document else "a format without a version"
        raise UserError(f"{path}: has {stated}; this version of medagent reads format {FORMAT}: make the set again")
    manifest: SetManifest = read_json(path, validator(SetManifest), expected=expected, error=UserError)
    return manifest


def canary(seed: str) -> str:
    """A text that shows whether a set was part of training data."""
    return f"MEDAGENT DATA SET {seed_digest(seed)[:32]}: keep out of training data."


def seed_digest(seed: str) -> str:
    """The SHA-256 of a seed."""
    return hashlib.sha256(seed.encode()).hexdigest()
