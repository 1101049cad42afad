"""Reads a package's structure from its files: what each imports, and how long its functions are."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from tests.shared_data import ROOT

LONGEST_FUNCTION, MOST_PARAMETERS = 60, 10


@cache
def tree(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text("utf-8"))


def imported(path: Path, package: str) -> Iterator[Path]:
    """The files of a package that a file imports, wherever in it, as files or through their rooms."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == package:
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


def plain_imports(path: Path) -> Iterator[str]:
    """The modules of a file's `import a.b` statements."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


def all_imports(path: Path) -> Iterator[str]:
    """The modules that a file imports, in either form."""
    yield from plain_imports(path)
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def in_circles(graph: dict[Path, set[Path]]) -> list[str]:
    """The files that import one another in a circle, or lead into one."""
    left = dict(graph)
    while free := [path for path, targets in left.items() if not targets & left.keys()]:
        for path in free:
            del left[path]
    return sorted(str(path.relative_to(ROOT)) for path in left)


def large_functions(paths: Iterable[Path]) -> list[str]:
    """Functions with too many lines or parameters."""
    large = []
    for path in paths:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                parameters = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
                length = (node.end_lineno or 0) - node.lineno + 1
                if length > LONGEST_FUNCTION or len(parameters) > MOST_PARAMETERS:
                    large.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.name} ({length} lines)")
    return large
