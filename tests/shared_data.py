"""Where test data is found: packed in tests/data, or in the folder `shared/` that may lie beside the repository."""

from __future__ import annotations

import lzma
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"
DATA = ROOT / "tests" / "data"


def read_xz(path: Path) -> str:
    """The text of an xz-packed UTF-8 file."""
    return lzma.decompress(path.read_bytes()).decode("utf-8")


@cache
def hospital_lines() -> list[str]:
    """The resources of the bundled hospital, which a process makes once."""
    from fhir_server.synthetic.bundled import hospital

    return list(hospital())


def need(path: Path) -> Path:
    """Return `path`, or skip the test, saying which file of shared/ is missing."""
    if not path.exists():
        pytest.skip(f"{path.relative_to(ROOT.parent)} is missing beside this checkout")
    return path
