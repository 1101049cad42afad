"""`dataset.json`: what a folder of `medagent data new` holds, from what it was made, and the digests of its files."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from medagent.core.errors import UserError
from refsol.files import read_json
from refsol.medagentbench.constants import Constants
from refsol.schema import validator

MANIFEST = "dataset.json"
HOSPITAL = "hospital.ndjson"
Like = Literal["bundled", "full", "shift"]
Split = Literal["train", "dev", "test", "ood"]


class Manifest(BaseModel):
    """The file's content. `files` are SHA-256s by name; the seed is named by its own."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    generator: int
    """The version of the generator; another one makes other bytes."""
    like: Like
    split: Split | None
    seed_sha256: str
    private: bool
    """Whether the seed was drawn, of 128 bits, and shown to nobody: the digest of a chosen one can be guessed."""
    patients: int
    per_type: int
    resources: dict[str, int]
    """By type."""
    canary: str
    constants: Constants
    files: dict[str, str]


def is_made(folder: Path) -> bool:
    """Whether a folder holds a made data set."""
    return (folder / MANIFEST).is_file()


def read_manifest(folder: Path) -> Manifest:
    """A folder's `dataset.json`. Raises UserError naming what is wrong with it."""
    return read_json(
        folder / MANIFEST, validator(Manifest), expected="what `medagent data new` wrote is expected", error=UserError
    )


def checked_file(folder: Path, manifest: Manifest, name: str) -> Path:
    """A file of the folder, its bytes as the manifest has them. Raises UserError."""
    path = folder / name
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    if digest != manifest.files.get(name):
        raise UserError(
            f"{path}: is not the file that {MANIFEST} beside it names (its SHA-256 differs); make the data set again"
        )
    return path
