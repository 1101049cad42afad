"""Folders that are made once in a session, by whichever of its workers needs one first."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from medagent.core.writing import locked


def session_folder(factory: pytest.TempPathFactory) -> Path:
    """The folder that all workers of the session share."""
    base = factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """A folder that `make` has filled. Tests must not change it, since tests of other workers read it."""
    folder = session_folder(factory) / name
    done = folder / ".done"
    with locked(folder.with_name(f".{name}.lock"), lambda: None):
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)  # what a failed attempt left
            folder.mkdir()
            make(folder)
            done.touch()
    return folder
