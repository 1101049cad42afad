"""The digest of installed code: it identifies the code of another process, or of a stored result."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path

from medagent.core.code_digest import UNKNOWN, code_digest

OURS = ("fhir_server", "medagent", "refsol")
_SOURCES = ("*.py", "*.toml")


def installed_digest() -> str:
    """SHA-256 of medagent's own sources."""
    return _digest(_files_of(OURS))


def grading_digest(cls: type) -> str:
    """SHA-256 of everything that decides the behaviour of a benchmark's class: the sources of medagent and of the
    packages of its base classes, and the class itself if it is the user's. Empty if the sources are unknown.
    """
    own = code_digest(cls, {})
    packages = {base.__module__.partition(".")[0] for base in cls.__mro__} - {"builtins", *sys.stdlib_module_names}
    installed = _digest(_files_of((*OURS, *sorted(packages.difference(OURS)))))
    return "" if own.startswith(UNKNOWN) else sha256(f"{installed} {own}".encode()).hexdigest()


@cache
def _digest(files: tuple[Path, ...]) -> str:
    digest, root = sha256(), Path(__file__).parents[2]
    for path in files:
        name = path.relative_to(root) if path.is_relative_to(root) else path.name
        digest.update(f"{name}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def _files_of(packages: Iterable[str]) -> tuple[Path, ...]:
    """The source files of packages. A module without a known file has none."""
    return tuple(file for package in packages for file in _sources(package))


def _sources(package: str) -> Sequence[Path]:
    if package in OURS:
        return _own_sources(package)
    path = Path(getattr(sys.modules.get(package), "__file__", None) or "/")
    if path.name != "__init__.py":
        return [path] if path.is_file() else []
    return _below(path.parent)


@cache
def _own_sources(package: str) -> Sequence[Path]:
    return _below(Path(__file__).parents[2] / package)


def _below(folder: Path) -> Sequence[Path]:
    return [path for pattern in _SOURCES for path in sorted(folder.rglob(pattern))]
