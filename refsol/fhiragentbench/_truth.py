"""Parses true answers, which have the form of a printed numpy table."""

from __future__ import annotations

import ast
import re

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    |(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)
    |(?P<nothing>None|nan|NaT)
    |(?P<bracket>[\[\]])
    )""",
    re.VERBOSE,
)

Value = str | float | None


def read_values(text: str) -> list[Value] | None:
    """The values of a text such as `[[1]]`, `[['M']]`, `[]` or `[[None]]`, with one row per line. None for other forms.

    A quoted number (`[['400']]`) is text.
    """
    values: list[Value] = []
    place, depth, stripped = 0, 0, text.rstrip()
    if not stripped.startswith("["):
        return None
    while place < len(stripped):
        token = _TOKEN.match(stripped, place)
        if token is None or (place > 0 and depth == 0):
            return None
        place = token.end()
        if token["bracket"]:
            depth += 1 if token["bracket"] == "[" else -1
        elif token["text"]:
            values.append(_unquoted(token["text"]))
        else:
            values.append(None if token["nothing"] else float(token["number"]))
    return values if depth == 0 else None


def _unquoted(text: str) -> str:
    try:
        return str(ast.literal_eval(text))
    except (ValueError, SyntaxError):
        return text[1:-1]
