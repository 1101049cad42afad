"""The Python versions of this machine, for checks that need another one than the current."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path


def interpreters() -> Iterator[Path]:
    """The Pythons of this machine, the running one first, then newer ones (`PYTHON_NEWER` before the rest)."""
    yield Path(sys.executable)
    if named := os.environ.get("PYTHON_NEWER"):
        yield Path(named)
    for minor in range(12, 16):
        if program := shutil.which(f"python3.{minor}"):
            yield Path(program)
        yield from sorted(Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python"))


def version_of(python: Path) -> tuple[int, int] | None:
    """The version of an interpreter, or None where it does not start (a shim without its Python)."""
    done = subprocess.run(
        [python, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        return None
    major, minor = done.stdout.split()
    return int(major), int(minor)


def interpreter(oldest: tuple[int, int]) -> Path | None:
    """The first Python of this machine that is new enough."""
    return next((python for python in interpreters() if (version_of(python) or (0, 0)) >= oldest), None)


def newest() -> Path:
    """The newest Python of this machine, the running one at least."""
    return max(interpreters(), key=lambda python: version_of(python) or (0, 0))
