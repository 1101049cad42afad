"""Python source and literals as data: nothing in a text is run.

Before 3.11.8 and 3.12.2, CPython counts the depth of a syntax tree once for all threads. If garbage collection runs
Python code while a tree is built, and another thread builds a tree meanwhile, the first one fails with "SystemError:
AST constructor recursion depth mismatch" (python/cpython#106905). Answers are graded in threads, so a lock keeps trees
apart. All of the project's trees are therefore built here.
"""

from __future__ import annotations

import ast
from threading import RLock
from typing import Any

_building = RLock()
"""Held while a tree is built. A collection of garbage may build another one in the same thread."""


def python_value(literal: str | ast.expr) -> Any:
    """The value of a Python literal, or of its tree.

    Raises ValueError, SyntaxError, TypeError, MemoryError or RecursionError.
    """
    with _building:
        return ast.literal_eval(literal)


def python_module(source: str) -> ast.Module:
    """The syntax tree of a module. Raises SyntaxError, ValueError, MemoryError or RecursionError."""
    with _building:
        return ast.parse(source)


def python_expression(source: str) -> ast.expr:
    """The syntax tree of one expression. Raises SyntaxError, ValueError, MemoryError or RecursionError."""
    with _building:
        return ast.parse(source, mode="eval").body
