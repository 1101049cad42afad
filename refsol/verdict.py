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
from typing import Any, Literal, NamedTuple, Protocol

Branch = Literal["query", "order", "no order"]
"""What was right: an answer to a query, an order, or no order."""


@dataclass(frozen=True, eq=False)
class _Absent:
    """Stands for a JSON value that is absent; a text says so."""

    text: str


MISSING: Any = _Absent("nothing")
"""A field that is missing, or whose parent has another type."""

NO_ANSWER: Any = _Absent("no answer (null)")
"""The answer of an item without one, because its episode did not complete."""

NOT_JSON: Any = _Absent("text that is not JSON")
"""An answer that cannot be read."""

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


class RequiredRead(Protocol):
    """Something that an agent must have read."""

    @property
    def facts(self) -> Sequence[Fact]:
        """The facts that decide."""


class Basis(Protocol):
    """What a verdict rests on."""

    @property
    def branch(self) -> Branch:
        """What was right."""

    @property
    def because(self) -> Because:
        """The deciding facts."""

    @property
    def accepted(self) -> tuple[Any, ...]:
        """The answers that count as right; empty if the answer does not count."""

    @property
    def needed(self) -> Sequence[RequiredRead]:
        """What an agent must have read; empty if the task's text has everything."""


class Check(NamedTuple):
    """The outcome of one rule. `required` is a text, or the meaning that `value` (JSON) must have. If it is empty,
    `value` is the reason why the check failed.
    """

    name: str
    passed: bool
    required: Any
    value: Any

    @property
    def expected(self) -> str:
        """The required value as a text for people, not for parsing."""
        return str(self.required if isinstance(self.required, str) else self.required.expected)

    @property
    def actual(self) -> str:
        """The value in the reply as a text for people, not for parsing."""
        return self.value if isinstance(self.required, str) else show(self.value)

    @property
    def words(self) -> str:
        """What failed: `route: expected "IV", got "oral"`, or for a rule without a required value its reason."""
        return (
            f"{self.name}: expected {self.expected}, got {self.actual}"
            if self.required
            else f"{self.name}: {self.actual}"
        )


@dataclass(frozen=True)
class Verdict:
    """`correct` is None if the item could not be graded. `checks` are all checks, in the order of the rules.

    `basis` is None if the facts do not decide what is right; then `branch` and `because` (the deciding facts) are too.
    Texts are made when they are read, because few readers of a verdict need them.
    """

    correct: bool | None
    checks: tuple[Check, ...] = ()
    fault: str = ""
    """Why the checks do not decide, or why there are none."""
    basis: Basis | None = field(default=None, compare=False, repr=False)
    judge_over: Callable[[Any], Verdict] | None = field(default=None, compare=False, repr=False)
    """Judges the same reply over another source of the chart (`clinical.sources.Source`)."""
    harmful: Callable[[], Any] | None = field(default=None, compare=False, repr=False)
    """What the orders would have done (`refsol.clinical.harm.Harm`), if the rules read an order by its meaning."""
    by_meaning: Callable[[], Verdict] | None = field(default=None, compare=False, repr=False)
    """The verdict by the rules that do, if these do not."""

    @cached_property
    def fair(self) -> Verdict:
        """The verdict by the rules that read an order by its meaning."""
        return self if self.by_meaning is None else self.by_meaning()

    @cached_property
    def harm(self) -> Any:
        """What the orders would have done to a patient, see `refsol.clinical.harm`; None if it is not known."""
        fair = self.fair
        return None if fair.harmful is None or fair.correct is None else fair.harmful()

    @property
    def branch(self) -> Branch | None:
        return None if self.basis is None else self.basis.branch

    @cached_property
    def because(self) -> Because | None:
        return None if self.basis is None else self.basis.because

    @property
    def accepted(self) -> tuple[Any, ...]:
        return self.basis.accepted if self.basis else ()

    @property
    def needed(self) -> Sequence[RequiredRead]:
        return self.basis.needed if self.basis else ()

    @cached_property
    def reason(self) -> str:
        """The first failed check and the number of others."""
        failed = [check for check in self.checks if not check.passed]
        if self.fault or not failed:
            return self.fault or "all checks passed"
        more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        return f"{failed[0].words}{more}"


def show(value: object) -> str:
    """A JSON value as a short text."""
    if isinstance(value, _Absent):
        return value.text
    try:
        text = encode_basestring_ascii(value) if type(value) is str else json.dumps(value)  # the same for texts
    except (ValueError, RecursionError) as error:
        return f"a value that cannot be shown ({type(error).__name__})"
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]}… ({len(text)} characters)"
