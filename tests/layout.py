"""Reads a package's structure from its files: what each imports, and how long its functions are."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.shared_data import ROOT

LONGEST_FUNCTION, MOST_PARAMETERS = 60, 10


class Function(NamedTuple):
    """A function of a file."""

    name: str
    line: int
    lines: int
    parameters: int
    is_async: bool


class Source(NamedTuple):
    """What the tests need of a file. Its syntax tree is not kept: the trees of all files take hundreds of MB."""

    imports: list[ast.Import | ast.ImportFrom]
    functions: list[Function]


@cache
def source(path: Path) -> Source:
    """The imports and functions of a file, wherever in it."""
    read = Source([], [])
    for node in _statements(ast.parse(path.read_text("utf-8")).body):
        if isinstance(node, ast.Import | ast.ImportFrom):
            read.imports.append(node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            parameters = len(node.args.posonlyargs + node.args.args + node.args.kwonlyargs)
            lines = (node.end_lineno or 0) - node.lineno + 1
            is_async = isinstance(node, ast.AsyncFunctionDef)
            read.functions.append(Function(node.name, node.lineno, lines, parameters, is_async))
    return read


def _statements(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The statements and the statements in them; expressions are most of a tree, and contain none."""
    for node in nodes:
        yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            yield from _statements(getattr(node, field, ()))


def imported(path: Path, package: str) -> Iterator[Path]:
    """The files of a package that a file imports, wherever in it, as files or through their rooms."""
    for node in source(path).imports:
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
    for node in source(path).imports:
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


def all_imports(path: Path) -> Iterator[str]:
    """The modules that a file imports, in either form."""
    yield from plain_imports(path)
    for node in source(path).imports:
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
    return [
        f"{path.relative_to(ROOT)}:{function.line} {function.name} ({function.lines} lines)"
        for path in paths
        for function in source(path).functions
        if function.lines > LONGEST_FUNCTION or function.parameters > MOST_PARAMETERS
    ]
