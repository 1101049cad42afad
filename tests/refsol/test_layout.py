"""What refsol may import (Python, and pydantic at the edges), and which way its arrows run."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.layout import large_functions, source
from tests.shared_data import ROOT

REFSOL = ROOT / "refsol"
MODULES = sorted(path.relative_to(ROOT) for path in REFSOL.rglob("*.py"))
ROOMS = ("medagentbench", "psb300", "fhiragentbench", "promptcblue", "simpleqa", "imapscore")
PYDANTIC = {
    "schema.py",
    "medagentbench/results.py",
    "medagentbench/recorded.py",
    "medagentbench/_key.py",
    "imapscore/records.py",
}
"""The modules that read files into pydantic models."""
ZSTANDARD = {"answer_files.py": {"zipfile_zstd"}}
"""Where an optional package teaches zipfile what Python reads by itself from 3.14 on."""
NEVER = {"asyncio", "socket", "ssl", "http", "urllib", "httpx", "aiohttp", "requests", "subprocess", "threading"}


def imported(path: Path) -> Iterator[str]:
    """The dotted names of all modules that a file imports anywhere."""
    for node in source(path).imports:
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        else:
            assert node.level == 0, f"{path}: a relative import"
            yield str(node.module)
            yield from (f"{node.module}.{name.name}" for name in node.names)


def files_of(path: Path) -> set[Path]:
    """The files of refsol that a file imports."""
    candidates = {ROOT / name.replace(".", "/") for name in imported(path) if name.split(".")[0] == "refsol"}
    found = {candidate.with_suffix(".py") for candidate in candidates} | {one / "__init__.py" for one in candidates}
    return {one for one in found if one.is_file()} - {path}


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_imports_are_pure_and_offline(module: Path) -> None:
    packages = {name.split(".")[0] for name in imported(ROOT / module) if not name.startswith("urllib.parse")}
    assert packages & NEVER == set()
    name = str(module.relative_to("refsol"))
    allowed = {"pydantic", "pydantic_core"} if name in PYDANTIC else ZSTANDARD.get(name, set())
    assert packages - sys.stdlib_module_names - {"refsol"} <= allowed


def test_nothing_waits() -> None:
    for module in MODULES:
        assert not any(function.is_async for function in source(ROOT / module).functions), module


def room_of(path: Path) -> str | None:
    name = path.relative_to(REFSOL).parts[0]
    return name if name in ROOMS else None


def test_no_room_knows_another_and_the_shared_modules_know_none() -> None:
    for module in MODULES:
        path = ROOT / module
        foreign = {room_of(other) for other in files_of(path)} - {None, room_of(path)}
        assert foreign == set(), module


def test_files_import_one_another_in_no_circle() -> None:
    graph = {ROOT / module: files_of(ROOT / module) for module in MODULES}
    # A package's own __init__ gathers its modules; it is imported with any of them, and is no arrow.
    graph = {path: {one for one in targets if one.name != "__init__.py"} for path, targets in graph.items()}
    done: set[Path] = set()
    while ready := {path for path, targets in graph.items() if path not in done and targets <= done}:
        done |= ready
    assert sorted(str(path) for path in graph.keys() - done) == []


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_files_and_functions_are_short(module: Path) -> None:
    assert len((ROOT / module).read_text(encoding="utf-8").splitlines()) <= 400
    assert not large_functions([ROOT / module])
