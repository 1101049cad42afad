"""Criteria: the conditions of a search as written in the query string, and the escapes in their values."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Criterion:
    """One condition. `values` are alternatives, still escaped. `chain` is the text after the first dot of the name.

    If `all_of` is set, the values are not alternatives: one index row must match all of them.
    """

    name: str
    modifier: str
    values: tuple[str, ...]
    chain: str = ""
    all_of: bool = False


def split(text: str, separator: str) -> tuple[str, ...]:
    """Splits at each separator without a backslash before it. Escapes are not resolved."""
    if "\\" not in text:
        return tuple(text.split(separator))
    parts, current, escaped = [], "", False
    for letter in text:
        if letter == separator and not escaped:
            parts.append(current)
            current = ""
        else:
            current += letter
        escaped = letter == "\\" and not escaped
    return (*parts, current)


def escaped(text: str) -> str:
    """Escapes a text for a value. `unescape` is the inverse."""
    return re.sub(r"([,|$\\])", r"\\\1", text)


def unescape(text: str) -> str:
    r"""Resolves `\,` `\|` `\$` and `\\`."""
    return re.sub(r"\\([,|$\\])", r"\1", text) if "\\" in text else text
