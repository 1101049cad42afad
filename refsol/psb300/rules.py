"""The two rule sets, and how the published grader reads a chart and compares a reply.

`official` does what the published grader does; its verdicts on recorded items are equal. `fair` matches codes and whole
words, uses the context's now and the time at which a reading was taken, and requires what the instruction requires.
The published grader searches texts for words, and fails on a field that it cannot read. The meanings here do the same,
so they may raise ReplyFault.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Literal

from refsol.clinical.amounts import amounts_in
from refsol.clinical.chart import Chart
from refsol.clinical.meanings import About, Accepted, Amount, Meaning, Names, OneOf, RuleSet, moment_of
from refsol.clinical.orders import Field, Order, lookup
from refsol.clinical.rulings import Reply, Ruling
from refsol.clinical.searches import ref
from refsol.clinical.sources import Resource
from refsol.clinical.vocabulary import spaced
from refsol.errors import DataFault, InputError, ReplyFault
from refsol.history import Post
from refsol.json_values import as_object, json_value, objects
from refsol.python_text import python_value
from refsol.resources import codes
from refsol.verdict import MISSING, Check, show

RuleName = Literal["official", "fair"]
HEART_RATE = "HEARTRATE"
TOLERANCE = 0.1
"""How far a mean may be off."""


def is_fair(chart: Chart) -> bool:
    """Whether the rule set is `fair`, whose rules differ from the published grader's."""
    return chart.rules is FAIR


class PsbChart(Chart):
    """A chart as the published grader reads it. Resources stored after `cut_off` do not count; None: all count."""

    strict, until_now = False, False
    cut_off: datetime | None = None

    def counts(self, resource: Resource) -> bool:
        """See `Chart.counts`. Only a heart rate may lack `meta`."""
        if self.cut_off is None or ("meta" not in resource and HEART_RATE in codes(resource)):
            return True
        meta = resource.get("meta")
        if not isinstance(meta, dict):
            raise DataFault(f"{ref(resource)} has no meta")
        if meta.get("lastUpdated") is None:
            return True
        stored = self.moment(meta["lastUpdated"], resource)
        if stored.utcoffset() is None:
            raise DataFault(f"{ref(resource)}: meta.lastUpdated is {meta['lastUpdated']}, a time without a zone")
        return stored <= self.cut_off

    def is_number(self, value: Any) -> bool:
        """See `Chart.is_number`. Infinity and NaN count, but no integer that is too large for a float."""
        return isinstance(value, float) or (isinstance(value, int) and abs(value) <= sys.float_info.max)

    def mentions(self, text: str, *words: str) -> bool:
        """See `Chart.mentions`. `official` finds a word anywhere, `fair` only a whole word or number."""
        if not is_fair(self):
            return any(word in text for word in words)
        numbers = [word for word in words if word.replace(",", "").isdigit()]
        if any(_number(word).search(text) for word in numbers):
            return True
        return super().mentions(text, *(word for word in words if word not in numbers))


@lru_cache(maxsize=256)
def _number(word: str) -> re.Pattern[str]:
    """Matches a whole number: `25` matches in `25 mcg`, `25mcg` and `25.0`, but not in `125`."""
    return re.compile(rf"(?<![\w.,-]){re.escape(word)}(?:\.0+)?(?!\d|[.,]\d)")


def _lower(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise ReplyFault(f"{what} is {show(value)}, not text")
    return value.lower()


class Subject(About):
    """The patient of an order. `official` compares the JSON."""


class Word(OneOf):
    """One of some words, in any case. A missing field is an empty text."""

    def accepts(self, actual: Any, chart: Chart) -> bool:
        return super().accepts("" if actual is MISSING else _lower(actual, "a status or intent"), chart)


class Written(Meaning):
    """Any value; a right reply has this one."""

    def accepts(self, actual: Any, chart: Chart) -> bool:
        return True


class Url(Meaning):
    """A URL that contains a text."""

    def accepts(self, actual: Any, chart: Chart) -> bool:
        return self.value in actual

    @property
    def expected(self) -> str:
        return f"a URL with {self.value}"


@dataclass(frozen=True, slots=True)
class Around(Meaning):
    """A time, or a Period, at most some time away from a stated one. Only `fair` compares it."""

    within: timedelta

    def json(self) -> Any:
        return self.value.isoformat()

    def accepts(self, actual: Any, chart: Chart) -> bool:
        if not is_fair(chart) or actual is MISSING:
            return True
        texts = [actual.get("start"), actual.get("end")] if isinstance(actual, dict) else [actual]
        moments = [moment_of(text, self.value) for text in texts]
        return all(moment is not None and abs(moment - self.value) <= self.within for moment in moments)

    @property
    def expected(self) -> str:
        return f"{show(self.json())}, at most {self.within.days} days off"


@dataclass(frozen=True, slots=True)
class Dosed(Meaning):
    """In `fair`, an order of a drug in a dose, which is in its text, with or without a unit, or in its dosage. If the
    dose need not be stated, only another one is wrong.
    """

    words: tuple[str, ...]
    dose: Amount
    needs_dose: bool = True

    def accepts(self, actual: Any, chart: Chart) -> bool:
        texts = [text.lower() for text in ordered_texts(actual)]
        if not any(chart.mentions(text, *self.words) for text in texts):
            return False
        dosage = as_object(lookup(actual, "dosageInstruction[0]"))
        quantity = as_object(lookup(dosage, "doseAndRate[0].doseQuantity"))
        amount = self.dose.of(quantity)
        if amount is not None:
            return self.dose.is_near(amount, chart)
        if not self.needs_dose or quantity.get("unit") or quantity.get("code"):
            return not self.needs_dose
        texts += [text.lower() for text in (dosage.get("text"),) if isinstance(text, str)]
        written = [number for text in texts for number in amounts_in(text, self.dose.unit)]
        number = f"{self.dose.value:g}"
        is_named = any(chart.mentions(text, number, f"{self.dose.value:,g}") for text in texts)
        return is_named or any(self.dose.is_near(amount, chart) for amount in written)

    @property
    def expected(self) -> str:
        return f"{self.words[0]} {self.dose.expected}"


def ordered_texts(actual: Any) -> list[str]:
    """The texts and codes that say what an order is of, without its notes and reasons."""
    order = as_object(actual)
    concepts = [order.get(name) for name in ("code", "medicationCodeableConcept", "medicationReference")]
    concepts += [resource.get("code") for resource in objects(order.get("contained"))]
    return [str(concept) for concept in concepts if concept]


class LabCode(Names):
    """`code`, an object with a text, names the words."""

    def accepts(self, actual: Any, chart: Chart) -> bool:
        if actual is not MISSING and not (isinstance(actual, dict) and isinstance(actual.get("text", ""), str)):
            raise ReplyFault(f"code is {show(actual)}, not an object with a text")
        return super().accepts(actual, chart)


class DrugText(Names):
    """A concept with a text that names the words."""

    def accepts(self, actual: Any, chart: Chart) -> bool:
        text = actual.get("text", "") if isinstance(actual, dict) else None
        return super().accepts(_lower(text, "medicationCodeableConcept.text"), chart)


class Ordered(Names):
    """The order names the words. `official` searches all of it, `fair` what it is of: a note orders nothing."""

    def accepts(self, actual: Any, chart: Chart) -> bool:
        if is_fair(chart) and isinstance(actual, dict):
            return Names.accepts(self, "\n".join(ordered_texts(actual)), chart)
        return Names.accepts(self, actual, chart)


class CodeOrDrug(Names):
    """`code` or `medicationCodeableConcept` names the words, each on its own."""

    def accepts(self, actual: Any, chart: Chart) -> bool:
        return any(Names.accepts(self, actual.get(name, ""), chart) for name in ("code", "medicationCodeableConcept"))


class Indication(Names):
    """The first text of a reason or a note that names the words. Texts after it are not looked at."""

    def accepts(self, actual: Any, chart: Chart) -> bool:
        if is_fair(chart):
            return any(Names.accepts(self, text.lower(), chart) for text in _reasons(actual))
        note = actual.get("note", [])
        items = [
            (actual.get("reasonCode", []), "text"),
            (actual.get("reasonReference", []), "display"),
            ([note] if isinstance(note, dict) else note, "text"),
        ]
        if not all(_is_iterable(values) and all(isinstance(item, dict) for item in values) for values, _ in items):
            raise ReplyFault("reasonCode, reasonReference or note is not a list of objects")
        texts = (item.get(name, "") for values, name in items for item in values)
        return any(Names.accepts(self, _lower(text, "the indication"), chart) for text in texts)


def _is_iterable(values: Any) -> bool:
    """Whether the published grader can go through a value. An empty object or text contains no item."""
    return isinstance(values, list | dict | str)


def _reasons(order: Any) -> Iterator[str]:
    """The texts that say why something is ordered."""
    notes = order.get("note")
    for reason in objects(order.get("reasonCode")):
        yield spaced(str(reason.get("text")))
        yield from (str(coding.get("display")) for coding in objects(reason.get("coding")))
    for item, name in [
        *((reference, "display") for reference in objects(order.get("reasonReference"))),
        *((note, "text") for note in ([notes] if isinstance(notes, dict) else objects(notes))),
    ]:
        yield spaced(str(item.get(name)))


class Vaccine(Names):
    """The text names one of the words, or the first coding of `code` has the code that is written.

    `fair` accepts this code anywhere in `code`.
    """

    def accepts(self, actual: Any, chart: Chart) -> bool:
        concept, code = actual.get("code", {}), lookup(self.value, "code.coding[0].code")
        if is_fair(chart):
            text = "\n".join(ordered_texts(actual))
            return chart.mentions(text, code) or Names.accepts(self, text, chart)
        if not isinstance(concept, str | list | dict):
            raise ReplyFault(f"code is {show(concept)}, not an object")
        if isinstance(concept, dict) and "coding" in concept:
            first = lookup(concept, "coding[0]")
            if not isinstance(first, dict):
                raise ReplyFault("no code.coding[0]")
            if first.get("code") == code:
                return True
        return super().accepts(actual, chart)


@dataclass(frozen=True, slots=True)
class NamesOrder(Ordered):
    """The text names an order of the chart by its drug, or it has the order's id."""

    id: Any

    def accepts(self, actual: Any, chart: Chart) -> bool:
        return (self.id is not None and actual.get("id") == self.id) or Ordered.accepts(self, actual, chart)


class Mean(Meaning):
    """A mean, at most `TOLERANCE` away, as a number or a text. Without readings (None), null and -1 are right."""

    def accepts(self, actual: Any, chart: Chart) -> bool:
        absent = actual is None or actual == -1 or (isinstance(actual, str) and actual.strip() == "-1")
        if absent or self.value is None:
            return absent and self.value is None
        try:
            return bool(abs(float(actual) - self.value) <= TOLERANCE)
        except (TypeError, ValueError, OverflowError):
            return False

    @property
    def expected(self) -> str:
        return "null or -1" if self.value is None else f"{self.value!r} ± {TOLERANCE}"


@dataclass(frozen=True)
class Due(Order):
    """A due order: at least `least` posts must be it. With `only`, no more posts may be it."""

    least: int = 1
    only: bool = False
    separate: bool = False
    """Whether it needs a post that no other order needs."""
    lazy: bool = False
    """Whether posts after the first right one are not looked at, so that they cannot be at fault."""
    url: Url | None = None

    def checks(self, post: Post | None, chart: Chart) -> Iterator[Check]:
        """See `Order.checks`. Raises ReplyFault if the post is not an object."""
        assert post is not None
        if self.url:
            yield Check(f"{self.kind} url", self.url.accepts(post.url, chart), self.url, post.url)
        if not isinstance(post.payload, dict):
            raise ReplyFault(f"a post is {show(post.payload)}, not an object")
        yield from super().checks(post, chart)


@dataclass(frozen=True)
class PsbRuling(Ruling):
    """A ruling with the demands of the published grader."""

    posts: int = 1
    """How many posts are due at least. More orders may be written than are due."""
    single: bool = False
    """Whether exactly one post is due. Each of its fields is a check."""
    every: tuple[Field, ...] = ()
    """Fields of every post."""
    besides: tuple[Due, ...] = ()
    """Orders that are not due, but are looked for in the posts: no post may be one with `only`."""
    attempts: bool = False
    """Whether `official` counts POSTs that were not accepted, if none is due."""

    def checks(self, reply: Reply, chart: Chart) -> Iterator[Check]:
        """The checks of a reply, in the published grader's order. A check that is not reached cannot fail."""
        try:
            yield from _orders(self, reply, chart) if self.due else _no_post(self, reply, chart)
        except RecursionError:
            raise ReplyFault("a post is nested too deeply to be read") from None
        if self.answers:
            accepted = Accepted(self.answers)
            yield Check("answer", accepted.accepts(_values(reply.raw), chart), accepted, reply.raw)


def _no_post(ruling: PsbRuling, reply: Reply, chart: Chart) -> Iterator[Check]:
    fair = is_fair(chart)
    if fair:
        sent = bool(reply.posts)
    elif ruling.attempts:
        sent = reply.attempted
    else:
        sent = bool(_accepted(reply))
    yield Check("no POST", not sent, "no POST", "a POST" if sent else "no POST")


def _accepted(reply: Reply) -> Sequence[Post]:
    if reply.unanswered:
        raise ReplyFault("the last message is a POST that nothing followed", "last message")
    return reply.posts


def _orders(ruling: PsbRuling, reply: Reply, chart: Chart) -> Iterator[Check]:
    posts = _accepted(reply)
    enough = len(posts) == 1 if ruling.single else len(posts) >= ruling.posts
    more = "" if ruling.single else " or more"
    yield Check("posts", enough, f"{ruling.posts}{more} accepted", f"{len(posts)} accepted")
    if not enough:
        return
    due = [order for order in ruling.due if isinstance(order, Due)]
    if ruling.single:
        yield from due[0].checks(posts[0], chart)
        return
    yield from (
        _count(order, posts, chart) for order in [*ruling.besides, *(order for order in due if not order.separate)]
    )
    yield from _apart([order for order in due if order.separate], posts, chart)
    for field in ruling.every:
        yield from (field.check(post.payload, "", chart) for post in posts)


def _misfit(order: Due, post: Post, chart: Chart) -> Check | None:
    """The first value of a post that is wrong; None if it is the order."""
    return next((check for check in order.checks(post, chart) if not check.passed), None)


def _count(order: Due, posts: Sequence[Post], chart: Chart) -> Check:
    """The check that enough posts are this order."""
    misfits: list[Check | None] = []
    for post in posts:
        misfits.append(_misfit(order, post, chart))
        if order.lazy and misfits[-1] is None:
            break
    fits = misfits.count(None)
    passed = fits == order.least if order.only else fits >= order.least
    expected = f"{order.least}{'' if order.only else ' or more'}"
    if fits or not posts:
        return Check(order.words, passed, expected, f"{fits}")
    return Check(order.words, passed, expected, f"0 ({_why_not(misfits)})")


def _why_not(misfits: Sequence[Check | None]) -> str:
    """What is wrong with each post that is not an order."""
    reasons = []
    for place, check in enumerate(misfits, 1):
        if check is not None:
            value = f"{check.name} is {check.actual}" if check.required else check.words
            reasons.append(f"post {place}: {value}")
    return "; ".join(reasons)


def _apart(orders: Sequence[Due], posts: Sequence[Post], chart: Chart) -> Iterator[Check]:
    """The checks that each of these orders has a post of its own (a maximum bipartite matching)."""
    misfits = [[_misfit(order, post, chart) for post in posts] for order in orders]
    fits = [[place for place, misfit in enumerate(row) if misfit is None] for row in misfits]
    taken: dict[int, int] = {}

    def placed(order: int, tried: set[int]) -> bool:
        for post in fits[order]:
            if post not in tried:
                tried.add(post)
                if post not in taken or placed(taken[post], tried):
                    taken[post] = order
                    return True
        return False

    for place, order in enumerate(orders):
        passed = placed(place, set())
        actual = "one" if passed else "none"
        if not passed and not fits[place]:
            actual += f" ({_why_not(misfits[place])})"
        yield Check(order.words, passed, "a post of its own", actual)


def _values(result: Any) -> Any:
    """A result as a list: a list, or a list written as Python or JSON."""
    if isinstance(result, str):
        try:
            result = python_value(result)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            result = json_value(result)
    return list(result) if isinstance(result, tuple) else result


OFFICIAL = RuleSet(
    "official",
    version="1",
    forms={Subject: lambda meaning, actual: bool(actual == meaning.json())},
    by_meaning=False,
    prose_counts=True,
)
FAIR = RuleSet("fair", prose_counts=True)
RULE_SETS: dict[RuleName, RuleSet] = {"official": OFFICIAL, "fair": FAIR}


def rule_name(text: str) -> RuleName:
    """Check the name of a rule set. Raises InputError if it is unknown."""
    for name in RULE_SETS:
        if name == text:
            return name
    raise InputError(f"unknown rules {text!r}; known: {', '.join(RULE_SETS)}")
