"""The two rule sets, and how the published grader reads a chart and compares a reply.

`official` does what the published grader does; its verdicts on recorded items are equal. `fair` matches codes and whole
words, uses the context's now and the time at which a reading was taken, and requires what the instruction requires.
The published grader searches texts for words, and fails on a field that it cannot read. The meanings here do the same,
so they may raise ReplyFault.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal

from refsol.clinical.chart import Chart
from refsol.clinical.meanings import Accepted, Meaning, Names, OneOf, RuleSet
from refsol.clinical.orders import Field, Order, lookup
from refsol.clinical.rulings import Reply, Ruling
from refsol.clinical.searches import ref
from refsol.clinical.sources import Resource
from refsol.errors import DataFault, InputError, ReplyFault
from refsol.history import Post
from refsol.json_values import json_value
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


class CodeOrDrug(Names):
    """`code` or `medicationCodeableConcept` names the words, each on its own."""

    def accepts(self, actual: Any, chart: Chart) -> bool:
        return any(Names.accepts(self, actual.get(name, ""), chart) for name in ("code", "medicationCodeableConcept"))


class Indication(Names):
    """The first text of a reason or a note that names the words. Texts after it are not looked at."""

    def accepts(self, actual: Any, chart: Chart) -> bool:
        note = actual.get("note", [])
        items = [
            (actual.get("reasonCode", []), "text"),
            (actual.get("reasonReference", []), "display"),
            ([note] if isinstance(note, dict) else note, "text"),
        ]
        if not all(isinstance(one, list) and all(isinstance(item, dict) for item in one) for one, _ in items):
            raise ReplyFault("reasonCode, reasonReference or note is not a list of objects")
        texts = (item.get(name, "") for one, name in items for item in one)
        return any(Names.accepts(self, _lower(text, "the indication"), chart) for text in texts)


class Vaccine(Names):
    """The text names one of the words, or the first coding of `code` has the code that is written.

    `fair` accepts this code anywhere in `code`.
    """

    def accepts(self, actual: Any, chart: Chart) -> bool:
        concept, code = actual.get("code", {}), lookup(self.value, "code.coding[0].code")
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

    id: Any

    def accepts(self, actual: Any, chart: Chart) -> bool:
        return (self.id is not None and actual.get("id") == self.id) or Names.accepts(self, actual, chart)


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
    own: bool = False
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
    sent = reply.attempted if ruling.attempts and not fair else bool(reply.posts if fair else _accepted(reply))
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
    due = [one for one in ruling.due if isinstance(one, Due)]
    if ruling.single:
        yield from due[0].checks(posts[0], chart)
        return
    yield from (_count(one, posts, chart) for one in [*ruling.besides, *(one for one in due if not one.own)])
    yield from _apart([one for one in due if one.own], posts, chart)
    for field in ruling.every:
        yield from (field.check(post.payload, "", chart) for post in posts)


def _misfit(order: Due, post: Post, chart: Chart) -> Check | None:
    """The first value of a post that is wrong; None if it is the order."""
    return next((one for one in order.checks(post, chart) if not one.passed), None)


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
    reasons = (f"post {place}: {one.name} is {one.actual}" for place, one in enumerate(misfits, 1) if one)
    return Check(order.words, passed, expected, f"0 ({'; '.join(reasons)})")


def _apart(orders: Sequence[Due], posts: Sequence[Post], chart: Chart) -> Iterator[Check]:
    """The checks that each of these orders has a post of its own (a maximum bipartite matching)."""
    fits = [[place for place, post in enumerate(posts) if _misfit(one, post, chart) is None] for one in orders]
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
        yield Check(order.words, passed, "a post of its own", "one" if passed else "none")


def _values(result: Any) -> Any:
    """A result as a list: a list, or a list written as Python or JSON."""
    if isinstance(result, str):
        try:
            result = ast.literal_eval(result)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            result = json_value(result)
    return list(result) if isinstance(result, tuple) else result


OFFICIAL = RuleSet("official", lenient=False, prose_counts=True)
FAIR = replace(OFFICIAL, name="fair")
RULE_SETS: dict[RuleName, RuleSet] = {"official": OFFICIAL, "fair": FAIR}


def rule_name(text: str) -> RuleName:
    """Check the name of a rule set. Raises InputError if it is unknown."""
    for name in RULE_SETS:
        if name == text:
            return name
    raise InputError(f"unknown rules {text!r}; known: {', '.join(RULE_SETS)}")
