"""The result of grading an item: a `Verdict` with `Check`s. Each check has the expected and the actual value as text.

Values are shown as JSON of at most 200 characters, with ASCII escapes, so that giant integers and deep nesting can
always be printed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from json.encoder import encode_basestring_ascii
from typing import Any, Literal, Protocol

from refsol.reads import Read

Branch = Literal["query", "order", "no order"]
"""What was right: an answer to a query, an order, or no order."""

MISSING: Any = type("Missing", (), {"__repr__": lambda _: "nothing"})()
"""A field that is missing, or whose parent has another type."""

NO_ANSWER: Any = type("NoAnswer", (), {"__repr__": lambda _: "no answer (null)"})()
"""The answer of an item without one, because its episode did not complete."""

_WIDTH = 200


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact. `name` is a laboratory code, `birthDate`, or the field that states it; `time` is the stored text.

    `role` is the fact's role in the rule. `value` and `time` are None if there is none; `unit` is None if it has none.
    """

    name: str
    value: int | float | str | None
    unit: str | None
    time: str | None
    role: str


@dataclass(frozen=True, slots=True)
class Because:
    """The facts that decide what is right, and a sentence about them. `dataclasses.asdict` gives the JSON form."""

    sentence: str
    facts: tuple[Fact, ...] = ()


class Needed(Protocol):
    """Something that an agent must have read."""

    def unread(self, reads: Sequence[Read]) -> list[str]:
        """What is missing from these reads, as texts."""


@dataclass(frozen=True, slots=True)
class Check:
    """The outcome of one rule. `expected` and `actual` are for people, not for parsing."""

    name: str
    passed: bool
    expected: str
    actual: str


@dataclass(frozen=True)
class Verdict:
    """`correct` is None if the item could not be graded. `checks` are all checks, in the order of the rules.

    `branch` and `because` (the deciding facts) are None if the facts do not decide what is right.
    """

    correct: bool | None
    checks: tuple[Check, ...]
    reason: str
    branch: Branch | None = None
    why: Callable[[], Because] | None = field(default=None, compare=False, repr=False)
    accepted: tuple[Any, ...] = ()
    """The answers that count as right; empty if the answer does not count."""
    needed: Sequence[Needed] | None = field(default=(), compare=False)
    """What an agent must have read; None if the task's text has everything."""

    @cached_property
    def because(self) -> Because | None:
        """The deciding facts. `why` collects them on first use, because few readers of a verdict need them."""
        return self.why and self.why()


def ungraded(reason: str) -> Verdict:
    """The verdict of an item that could not be graded."""
    return Verdict(None, (), reason)


def decide(
    checks: Sequence[Check],
    branch: Branch,
    why: Callable[[], Because],
    accepted: tuple[Any, ...],
    needed: Sequence[Needed] | None = (),
) -> Verdict:
    """Right if every check passed. The reason names the first failed check and the number of others."""
    failed = [check for check in checks if not check.passed]
    if not failed:
        return Verdict(True, tuple(checks), "all checks passed", branch, why, accepted, needed)
    first = failed[0]
    more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
    reason = f"{first.name}: expected {first.expected}, got {first.actual}{more}"
    return Verdict(False, tuple(checks), reason, branch, why, accepted, needed)


def show(value: object) -> str:
    """A JSON value as a short text."""
    if value is MISSING or value is NO_ANSWER:
        return repr(value)
    try:
        text = encode_basestring_ascii(value) if type(value) is str else json.dumps(value)  # the same for texts
    except (ValueError, RecursionError) as error:
        return f"a value that cannot be shown ({type(error).__name__})"
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]}… ({len(text)} characters)"
