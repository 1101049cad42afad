"""What grading an item says: a `Verdict` of `Check`s, each with what was expected and what came, as short text.

Values are shown as JSON of at most 200 characters, in ASCII escapes where JSON needs them, so that lone surrogates,
giant integers and deep nesting can be printed anywhere.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

Branch = Literal["query", "order", "no order"]
"""What was right: to answer a query, to place an order, or to order nothing."""

MISSING: Any = type("Missing", (), {"__repr__": lambda _: "nothing"})()
"""Stands for a field that is not there, or whose place has another type."""

NO_ANSWER: Any = type("NoAnswer", (), {"__repr__": lambda _: "no answer (null)"})()
"""Stands for the answer of an item that has none, because its episode did not complete."""

_WIDTH = 200


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact: `name` is a laboratory code, `birthDate`, or the field that states it; `time` is as stored.

    `role` says what the rule took it for. `value` and `time` are None where there is none, `unit` where it has none.
    """

    name: str
    value: int | float | str | None
    unit: str | None
    time: str | None
    role: str


@dataclass(frozen=True, slots=True)
class Because:
    """The facts that decide what the right conduct is, and a sentence that says so. `dataclasses.asdict` is its JSON
    form.
    """

    sentence: str
    facts: tuple[Fact, ...] = ()


@dataclass(frozen=True, slots=True)
class Check:
    """One rule that was looked at; `expected` and `actual` are for reading, not for parsing."""

    name: str
    passed: bool
    expected: str
    actual: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """`correct` is None where nothing could be graded; `checks` are all that were made, in the order of the rules.

    `branch` and `because` (the facts that decide it) are None where the facts do not decide what was right.
    """

    correct: bool | None
    checks: tuple[Check, ...]
    reason: str
    branch: Branch | None = None
    because: Because | None = None
    accepted: tuple[Any, ...] = ()
    """The answers that count as right; empty where the answer does not count."""


def ungraded(reason: str) -> Verdict:
    """The verdict of an item that could not be graded."""
    return Verdict(None, (), reason)


def decide(checks: Sequence[Check], branch: Branch, because: Because, accepted: tuple[Any, ...]) -> Verdict:
    """Right where every check passed; the reason names the first that failed, and how many more did."""
    failed = [check for check in checks if not check.passed]
    if not failed:
        return Verdict(True, tuple(checks), "all checks passed", branch, because, accepted)
    first = failed[0]
    more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
    reason = f"{first.name}: expected {first.expected}, got {first.actual}{more}"
    return Verdict(False, tuple(checks), reason, branch, because, accepted)


def show(value: object) -> str:
    """A JSON value as short text."""
    if value is MISSING or value is NO_ANSWER:
        return repr(value)
    try:
        text = json.dumps(value)
    except (ValueError, RecursionError) as error:
        return f"a value that cannot be shown ({type(error).__name__})"
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]}… ({len(text)} characters)"
