"""Folders that `medagent data new` makes from a seed: whole or not at all, and with the seed inside if it was drawn."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from medagent.core.errors import UserError

SEED = "seed.txt"
"""The file with the seed of a folder whose seed was drawn."""
PRIVATE_BITS = 128

T = TypeVar("T")


def make_folder(folder: Path, seed: str | None, write: Callable[[str], T]) -> T:
    """Let `write` fill a new or empty folder from a seed; without one a secret seed is drawn and kept in the folder.

    Raises UserError if the folder cannot be used. If `write` fails, its files are removed.
    """
    text = seed if seed is not None else secrets.token_hex(PRIVATE_BITS // 8)
    try:
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
    except OSError as error:
        raise UserError(f"{error.filename or folder}: cannot be written: {error.strerror}") from None
    return done


def kept_seed(folder: Path) -> str:
    """The seed that a folder's `seed.txt` has. Raises UserError if there is none."""
    path = folder / SEED
    try:
        return path.read_text(encoding="ascii").removesuffix("\n")
    except (OSError, ValueError):
        raise UserError(f"{path}: cannot be read; name the seed with --seed") from None


def _write_secret(path: Path, text: str) -> None:
    """Write a file that only its owner can read, from its first byte on."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(text)
