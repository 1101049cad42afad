"""The requirements that a rule can have for a JSON value: small tests with a description, and paths to values.

A test never raises: a value that is missing or of another type fails it. Numbers compare as numbers, and true is 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from refsol.verdict import MISSING, Check, show

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Matcher:
    """A requirement for one value: `expected` describes it, `accepts` tests a value."""

    expected: str
    accepts: Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class FieldRule:
    """A requirement for the value at a place in a payload."""

    path: Path
    form: Matcher

    def check(self, payload: Any, resource: str) -> Check:
        """Check the field of a payload. The check's name starts with `resource`, the expected resource type."""
        actual = lookup(payload, self.path)
        return Check(f"{resource} {_place(self.path)}", self.form.accepts(actual), self.form.expected, show(actual))


@lru_cache(maxsize=1 << 8)  # the rules have few paths, and a check at each of them for each order
def _place(path: Path) -> str:
    """A path as text: `code.coding[0].system`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")


def lookup(value: Any, path: Path) -> Any:
    """The value at a path; MISSING if a step does not exist or has another type."""
    for step in path:
        if isinstance(value, dict):
            value = value.get(step, MISSING)
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return MISSING
    return value


def equal(value: Any) -> Matcher:
    """JSON equality."""
    return _equal_text(value) if type(value) is str else _equal(value)


def _equal(value: Any) -> Matcher:
    return Matcher(show(value), lambda actual: bool(actual == value))


_equal_text = lru_cache(maxsize=1 << 10)(_equal)  # the rules have few different texts and use each one often


@lru_cache(maxsize=1 << 10)
def contains(text: str) -> Matcher:
    """A text that contains this text, a list that has it as a member, or an object that has it as a key."""
    return Matcher(f"something that contains {show(text)}", lambda actual: _contains(actual, text))


def only(value: Any) -> Matcher:
    """A list with exactly this value."""
    return equal([value])


def near(value: float, tolerance: float) -> Matcher:
    """A number at most `tolerance` away from `value`."""
    return Matcher(f"{value} ± {tolerance}", lambda actual: distance(actual, value) <= tolerance)


def word(*words: str) -> Matcher:
    """One of some words, ignoring case and surrounding whitespace."""
    return Matcher(
        " or ".join(map(show, words)), lambda actual: isinstance(actual, str) and actual.lower().strip() in words
    )


def either(*forms: Matcher) -> Matcher:
    """Any of several forms."""
    return Matcher(
        " or ".join(form.expected for form in forms), lambda actual: any(form.accepts(actual) for form in forms)
    )


def at(path: Path, form: Matcher) -> Matcher:
    """A requirement for a nested value."""
    return Matcher(f"{form.expected} at {_place(path)}", lambda actual: form.accepts(lookup(actual, path)))


def some(form: Matcher) -> Matcher:
    """A list with at least one item of this form."""
    return Matcher(
        f"a list with {form.expected}",
        lambda actual: isinstance(actual, list) and any(form.accepts(item) for item in actual),
    )


def optional(form: Matcher) -> Matcher:
    """This form, or a missing value."""
    return Matcher(f"{form.expected}, or nothing", lambda actual: actual is MISSING or form.accepts(actual))


def distance(actual: Any, expected: float) -> float:
    """The distance of a number from the expected one; infinite if it is not a number or is too large."""
    try:
        return abs(actual - expected) if isinstance(actual, int | float) else float("inf")
    except OverflowError:
        return float("inf")


def _contains(actual: Any, text: str) -> bool:
    return isinstance(actual, str | list | dict) and text in actual
