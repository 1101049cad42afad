"""`dataset.json`: the manifest of a folder made by `medagent data new`, with its options and its files' digests."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from medagent.benchmarks.made_folders import MANIFEST, InjectedShare
from medagent.core.errors import UserError
from refsol.files import read_json
from refsol.medagentbench.constants import Constants
from refsol.schema import validator

Like = Literal["bundled", "full", "shift"]
Split = Literal["train", "dev", "test", "ood"]


class Manifest(BaseModel):
    """The content of `dataset.json`. `files` lists the SHA-256 of each file by name."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    generator: int
    """The version of the generator. Another version makes other bytes."""
    like: Like
    split: Split | None
    seed_sha256: str
    private: bool
    """Whether the seed was chosen at random (128 bits) and kept secret. Other seeds can be guessed from the digest."""
    patients: int
    per_type: int
    resources: dict[str, int]
    """The number of resources by type."""
    canary: str
    constants: Constants
    files: dict[str, str]
    injected: InjectedShare = 0.0


def is_made(folder: Path) -> bool:
    """Whether a folder contains a generated data set."""
    return (folder / MANIFEST).is_file()


def read_manifest(folder: Path) -> Manifest:
    """Read a folder's `dataset.json`. Raises UserError, which lists its problems."""
    return read_json(
        folder / MANIFEST,
        validator(Manifest),
        expected="a manifest written by `medagent data new` is expected",
        error=UserError,
    )
