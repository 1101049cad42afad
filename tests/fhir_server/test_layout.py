"""The direction of imports: the rooms of `fhir_server` lie on floors, and none imports from a floor above its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.shared_data import ROOT

PACKAGE = ROOT / "fhir_server"
FLOORS = [
    ["errors", "clock", "ids", "definitions"],
    ["wire"],
    ["resources"],
    ["search", "patch"],
    ["store"],
    ["load", "interactions"],
    ["operations"],
    ["metadata"],
    ["routes"],
    ["server"],
    ["app"],
    ["cors"],
    ["__main__"],
]
"""Rooms and files of the top level, the lowest first. `synthetic` stands beside them and is imported by none."""
LONGEST_FUNCTION, MOST_PARAMETERS = 60, 10


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def files() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def imported(path: Path) -> Iterator[Path]:
    """The files of the package that a file imports, wherever in it, as files or through their rooms."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "fhir_server":
            folder = ROOT / node.module.replace(".", "/")
            for name in node.names:
                inner = folder / name.name
                if inner.with_suffix(".py").exists():
                    yield inner.with_suffix(".py")
                elif inner.is_dir():
                    yield inner / "__init__.py"
                elif folder.is_dir():
                    yield folder / "__init__.py"
                else:
                    yield folder.with_suffix(".py")


def room(path: Path) -> str:
    """The folder of the top level that a file lies in, or the file's own name."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def floor(path: Path) -> int:
    """The floor of a file's room; the package itself, which loads what is asked for, is above all."""
    found = [number for number, rooms in enumerate(FLOORS) if room(path) in rooms]
    return found[0] if found else len(FLOORS)


def test_every_room_has_its_floor() -> None:
    assert {room(path) for path in files()} == {name for rooms in FLOORS for name in rooms} | {"synthetic", "__init__"}


def test_no_file_imports_from_above() -> None:
    upward = [
        (path.relative_to(ROOT), target.relative_to(ROOT))
        for path in files()
        for target in imported(path)
        if room(path) != room(target) and (floor(target) >= floor(path) or "synthetic" in (room(path), room(target)))
        if room(path) != "__init__"
    ]
    assert not upward


def test_no_circle_of_files() -> None:
    graph = {path: set(imported(path)) - {path} for path in files() if room(path) != "__init__"}
    while free := [path for path, targets in graph.items() if not targets & graph.keys()]:
        for path in free:
            del graph[path]
    assert not sorted(path.relative_to(ROOT) for path in graph)


def test_functions_are_small() -> None:
    large = []
    for path in files():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                parameters = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
                length = (node.end_lineno or 0) - node.lineno + 1
                if length > LONGEST_FUNCTION or len(parameters) > MOST_PARAMETERS:
                    large.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.name}")
    assert not large
