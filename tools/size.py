"""Prints the size of the three packages: Python tokens, lines and modules, in all and by folder.

    python tools/size.py                 # the packages, and each of their folders
    python tools/size.py PATH …          # these files or folders only

Tokens are as in Python's tokenizer. Comments, docstrings, line ends and indentation are not counted, so names and
layout that make code readable cost nothing.
"""

from __future__ import annotations

import argparse
import ast
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("medagent", "refsol", "fhir_server")
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


class Size(NamedTuple):
    """The size of one or more modules."""

    tokens: int
    lines: int
    modules: int


def docstrings(tree: ast.Module) -> Iterator[tuple[int, int]]:
    """Where the docstrings begin (line, column), including the texts below a class's fields."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for statement in node.body:
                if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                    yield statement.lineno, statement.col_offset


def measure(path: Path) -> Size:
    """The size of one module."""
    ignored = set(docstrings(ast.parse(path.read_text("utf-8"))))
    with path.open("rb") as file:
        tokens = [token for token in tokenize.tokenize(file.readline) if token.type not in LAYOUT]
    counted = [token for token in tokens if token.type != tokenize.STRING or token.start not in ignored]
    return Size(len(counted), path.read_bytes().count(b"\n"), 1)


def total(paths: Iterable[Path]) -> Size:
    """The sum over all modules of these files and folders."""
    modules = [module for path in paths for module in ([path] if path.is_file() else sorted(path.rglob("*.py")))]
    sizes = [measure(module) for module in modules]
    return Size(*(sum(column) for column in zip(*sizes, strict=True))) if sizes else Size(0, 0, 0)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path)
    named = parser.parse_args().paths
    rows = [(str(path), total([path])) for path in named]
    if not named:
        for name in PACKAGES:
            package = ROOT / name
            rows.append((name, total([package])))
            folders = [path for path in sorted(package.iterdir()) if path.is_dir() and total([path]).modules]
            rows += [(f"  {path.name}/", total([path])) for path in folders]
        rows.append(("all", total(ROOT / name for name in PACKAGES)))
    print(f"{'':24} {'tokens':>9} {'lines':>8} {'modules':>8}")
    for name, size in rows:
        print(f"{name:24} {size.tokens:>9,} {size.lines:>8,} {size.modules:>8,}")


if __name__ == "__main__":
    main()
