"""What the fields of psb-300's orders must mean. The published grader searches texts for words, and fails on a field
that it cannot read. These meanings do the same, so they may raise ReplyFault.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from refsol.clinical.chart import Chart
from refsol.clinical.codes import Code
from refsol.clinical.faults import ReplyFault
from refsol.clinical.meanings import Coded, Meaning, Names, OneOf
from refsol.clinical.orders import lookup
from refsol.json_values import as_object
from refsol.verdict import MISSING, show


def is_fair(chart: Chart) -> bool:
    """Whether the rule set is `fair`, whose rules differ from the published grader's."""
    return chart.rules.name == "fair"


def _lower(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise ReplyFault(f"{what} is {show(value)}, not text")
    return value.lower()


class Word(OneOf):
    """One of some words, in any case. A missing field is an empty text."""

    def accepts(self, actual: Any, chart: Chart) -> bool:
        """See `Meaning.accepts`."""
        return super().accepts("" if actual is MISSING else _lower(actual, "a status or intent"), chart)


class CodeNames(Names):
    """`code` as text names the words in this spelling, in upper or lower case."""

    def accepts(self, actual: Any, chart: Chart) -> bool:
        """See `Meaning.accepts`."""
        text = "" if actual is MISSING else str(actual)
        return all(isinstance(word, str) and chart.mentions(text, word) for word in self.words)


class Laboratory(Names):
    """`code`, an object with a text, names the words."""

    def accepts(self, actual: Any, chart: Chart) -> bool:
        """See `Meaning.accepts`."""
        code = {} if actual is MISSING else actual
        if not isinstance(code, dict) or not isinstance(code.get("text", ""), str):
            raise ReplyFault(f"code is {show(code)}, not an object with a text")
        return super().accepts(code, chart)


class DrugText(Names):
    """`medicationCodeableConcept.text` names the words."""

    def accepts(self, actual: Any, chart: Chart) -> bool:
        """See `Meaning.accepts`."""
        text = actual.get("text", "") if isinstance(actual, dict) else None
        return super().accepts(_lower(text, "medicationCodeableConcept.text"), chart)


class CodeOrDrug(Names):
    """`code` or `medicationCodeableConcept` names the words, each on its own."""

    def accepts(self, actual: Any, chart: Chart) -> bool:
        """See `Meaning.accepts`."""
        return any(
            super(CodeOrDrug, self).accepts(actual.get(name, {}), chart)
            for name in ("code", "medicationCodeableConcept")
        )


class Indication(Names):
    """The first text of a reason or a note that names the words. Texts after it are not looked at."""

    def accepts(self, actual: Any, chart: Chart) -> bool:
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


class FirstCoded(Coded):
    """A CodeableConcept whose first coding has this code, in any system."""

    def accepts(self, actual: Any, chart: Chart) -> bool:
        """See `Meaning.accepts`."""
        return bool(lookup(actual, "coding[0].code") == self.code.code)


@dataclass(frozen=True, slots=True)
class Vaccine(Names):
    """The order's first coding has this code, or its text names the words. `fair` accepts the code anywhere in `code`."""

    code: Code = Code("")

    def accepts(self, actual: Any, chart: Chart) -> bool:
        """See `Meaning.accepts`."""
        concept = actual.get("code", {})
        if not isinstance(concept, str | list | dict):
            raise ReplyFault(f"code is {show(concept)}, not an object")
        if isinstance(concept, dict) and "coding" in concept:
            first = lookup(concept, "coding[0]")
            if not isinstance(first, dict):
                raise ReplyFault("no code.coding[0]")
            if first.get("code") == self.code.code:
                return True
        named = Names.accepts(self, actual, chart)
        return named or (is_fair(chart) and chart.mentions(str(concept), self.code.code))


@dataclass(frozen=True, slots=True)
class NamesOrder(Names):
    """The text names an order of the chart by its drug, or it has the order's id."""

    id: Any = None

    def accepts(self, actual: Any, chart: Chart) -> bool:
        """See `Meaning.accepts`."""
        return (self.id is not None and actual.get("id") == self.id) or Names.accepts(self, actual, chart)


@dataclass(frozen=True, slots=True)
class Mean(Meaning):
    """A mean, at most `TOLERANCE` away, as a number or a text. Without readings (None), null and -1 are right."""

    value: float | None

    def json(self) -> Any:
        """See `Meaning.json`."""
        return self.value

    def accepts(self, actual: Any, chart: Chart) -> bool:
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


TOLERANCE = 0.1


def coded(code: Code) -> dict[str, Any]:
    """A CodeableConcept for a new order."""
    return as_object(Coded(code).json())
