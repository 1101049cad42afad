"""What the fields of psb-300's orders must mean. The published grader searches texts for words, and fails on a field
that it cannot read. These meanings do the same, so they may raise ReplyFault.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from refsol.clinical.case import Case
from refsol.clinical.faults import ReplyFault
from refsol.clinical.meanings import Is, Meaning, Names, OneOf
from refsol.clinical.orders import lookup
from refsol.verdict import MISSING, show

TOLERANCE = 0.1
"""How far a mean may be off."""


def is_fair(chart: Case) -> bool:
    """Whether the rule set is `fair`, whose rules differ from the published grader's."""
    return chart.rules.name == "fair"


def _lower(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise ReplyFault(f"{what} is {show(value)}, not text")
    return value.lower()


class Word(OneOf):
    """One of some words, in any case. A missing field is an empty text."""

    def accepts(self, actual: Any, chart: Case) -> bool:
        """See `Meaning.accepts`."""
        return super().accepts("" if actual is MISSING else _lower(actual, "a status or intent"), chart)


class Written(Is):
    """Any value; a right reply has this one."""

    def accepts(self, actual: Any, chart: Case) -> bool:
        """See `Meaning.accepts`."""
        return True


class FirstCode(Names):
    """The first coding of `code` has one of the words as its code, in any system."""

    def accepts(self, actual: Any, chart: Case) -> bool:
        """See `Meaning.accepts`."""
        return lookup(actual, "code.coding[0].code") in self.words


class InCode(Names):
    """`code` names the words."""

    def accepts(self, actual: Any, chart: Case) -> bool:
        """See `Meaning.accepts`."""
        return super().accepts(actual.get("code", {}), chart)


class CodeNames(Names):
    """`code` names one of the words, as they are spelled."""

    def accepts(self, actual: Any, chart: Case) -> bool:
        """See `Meaning.accepts`."""
        return chart.mentions(str(actual.get("code", {})), *map(str, self.words))


class Laboratory(InCode):
    """`code`, an object with a text, names the words."""

    def accepts(self, actual: Any, chart: Case) -> bool:
        """See `Meaning.accepts`."""
        code = actual.get("code", {})
        if not isinstance(code, dict) or not isinstance(code.get("text", ""), str):
            raise ReplyFault(f"code is {show(code)}, not an object with a text")
        return super().accepts(actual, chart)


class DrugText(Names):
    """`medicationCodeableConcept.text` names the words."""

    def accepts(self, actual: Any, chart: Case) -> bool:
        """See `Meaning.accepts`."""
        concept = actual.get("medicationCodeableConcept")
        text = concept.get("text", "") if isinstance(concept, dict) else None
        return super().accepts(_lower(text, "medicationCodeableConcept.text"), chart)


class CodeOrDrug(Names):
    """`code` or `medicationCodeableConcept` names the words, each on its own."""

    def accepts(self, actual: Any, chart: Case) -> bool:
        """See `Meaning.accepts`."""
        return any(
            super(CodeOrDrug, self).accepts(actual.get(name, {}), chart)
            for name in ("code", "medicationCodeableConcept")
        )


class Indication(Names):
    """The first text of a reason or a note that names the words. Texts after it are not looked at."""

    def accepts(self, actual: Any, chart: Case) -> bool:
        """See `Meaning.accepts`."""
        note = actual.get("note", [])
        items = [
            (actual.get("reasonCode", []), "text"),
            (actual.get("reasonReference", []), "display"),
            ([note] if isinstance(note, dict) else note, "text"),
        ]
        if not all(isinstance(one, list) and all(isinstance(item, dict) for item in one) for one, _ in items):
            raise ReplyFault("reasonCode, reasonReference or note is not a list of objects")
        texts = (item.get(name, "") for one, name in items for item in one)
        return any(super(Indication, self).accepts(_lower(text, "the indication"), chart) for text in texts)


class Vaccine(Names):
    """The text names one of the words, or the first coding of `code` has the code that is written.

    `fair` accepts this code anywhere in `code`.
    """

    def accepts(self, actual: Any, chart: Case) -> bool:
        """See `Meaning.accepts`."""
        concept, code = actual.get("code", {}), lookup(self.writes, "code.coding[0].code")
        if not isinstance(concept, str | list | dict):
            raise ReplyFault(f"code is {show(concept)}, not an object")
        if isinstance(concept, dict) and "coding" in concept:
            first = lookup(concept, "coding[0]")
            if not isinstance(first, dict):
                raise ReplyFault("no code.coding[0]")
            if first.get("code") == code:
                return True
        return super().accepts(actual, chart) or (is_fair(chart) and chart.mentions(str(concept), code))


@dataclass(frozen=True, slots=True)
class NamesOrder(Names):
    """The text names an order of the chart by its drug, or it has the order's id."""

    id: Any = None

    def accepts(self, actual: Any, chart: Case) -> bool:
        """See `Meaning.accepts`."""
        return (self.id is not None and actual.get("id") == self.id) or Names.accepts(self, actual, chart)


@dataclass(frozen=True, slots=True)
class Mean(Meaning):
    """A mean, at most `TOLERANCE` away, as a number or a text. Without readings (None), null and -1 are right."""

    value: float | None

    def json(self) -> Any:
        """See `Meaning.json`."""
        return self.value

    def accepts(self, actual: Any, chart: Case) -> bool:
        """See `Meaning.accepts`."""
        if actual is None or actual == -1 or (isinstance(actual, str) and actual.strip() == "-1"):
            return self.value is None
        if self.value is None or not isinstance(actual, int | float | str):
            return False
        try:
            return abs(float(actual) - self.value) <= TOLERANCE
        except (ValueError, OverflowError):
            return False

    @property
    def expected(self) -> str:
        """See `Meaning.expected`."""
        return "null or -1" if self.value is None else f"{self.value!r} ± {TOLERANCE}"
