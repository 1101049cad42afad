"""Suggestions for misspelled names and options."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from medagent.core.errors import UserError


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A sentence with the name most similar to a word, after a space. Empty if none is similar."""
    matches = get_close_matches(word, list(known), n=1)
    return f" Did you mean {matches[0]!r}?" if matches else ""


def check_option(name: str, value: object, known: Iterable[str]) -> None:
    """Raises UserError, with a suggestion, for a text option of the Python API that is not one of the known values."""
    values = list(known)
    if value not in values:
        *others, last = map(repr, values)
        raise UserError(f"{name}={value!r}: use {', '.join(others)} or {last}.{did_you_mean(str(value), values)}")
