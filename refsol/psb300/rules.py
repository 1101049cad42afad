"""The two rule sets, and how the published grader reads a chart and compares a reply.

`official` does what the published grader does; its verdicts on recorded items are equal. `fair` matches codes and whole
words, uses the context's now and the time at which a reading was taken, and requires what the instruction requires.
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

from refsol.clinical.case import Case
from refsol.clinical.chart import Chart
from refsol.clinical.faults import DataFault, ReplyFault
from refsol.clinical.meanings import in_words
from refsol.clinical.orders import Field, Order, lookup
from refsol.clinical.rules import Reply, RuleSet
from refsol.clinical.rulings import Ruling
from refsol.clinical.sources import Resource, ref
from refsol.errors import InputError
from refsol.history import Post
from refsol.json_values import json_value
from refsol.psb300.meanings import is_fair
from refsol.resources import codes
from refsol.verdict import Check, show

RuleName = Literal["official", "fair"]
HEART_RATE = "HEARTRATE"


class PsbChart(Chart):
    """A chart as the published grader reads it. Resources stored after `cut_off` do not count; None: all count."""

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


@dataclass(frozen=True)
class Due(Order):
    """A due order: at least `least` posts must be it. With `only`, no more posts may be it."""

    least: int = 1
    only: bool = False
    own: bool = False
    """Whether it needs a post that no other order needs."""
    lazy: bool = False
    """Whether posts after the first right one are not looked at, so that they cannot be at fault."""
    url: str = ""
    """What the URL must contain."""

    def check(self, post: Post | None, chart: Case) -> Iterator[Check]:
        """See `Order.check`."""
        if post and self.url:
            yield Check(f"{self.kind} url", self.url in post.url, f"a URL with {self.url}", show(post.url))
        yield from super().check(post, chart)


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


def look(payload: Any, path: str) -> Any:
    """The value at a path of a post, which must be an object."""
    if not isinstance(payload, dict):
        raise ReplyFault(f"a post is {show(payload)}, not an object")
    return lookup(payload, path)


def compare(ruling: Ruling, reply: Reply, chart: Case) -> Iterator[Check]:
    """The checks of a reply, in the published grader's order. A check that is not reached cannot fail."""
    assert isinstance(ruling, PsbRuling)
    try:
        yield from _orders(ruling, reply, chart) if ruling.due else _no_post(ruling, reply, chart)
    except RecursionError:
        raise ReplyFault("a post is nested too deeply to be read") from None
    for one in ruling.answers or ():
        yield Check("answer", chart.rules.is_answer(one, _values(reply.raw), chart), in_words(one), show(reply.raw))


def _no_post(ruling: PsbRuling, reply: Reply, chart: Case) -> Iterator[Check]:
    if ruling.attempts and not is_fair(chart):
        sent = reply.attempted
    else:
        sent = bool(reply.posts if is_fair(chart) else _accepted(reply))
    yield Check("no POST", not sent, "no POST", "a POST" if sent else "no POST")


def _accepted(reply: Reply) -> Sequence[Post]:
    if reply.unanswered:
        raise ReplyFault("the last message is a POST that nothing followed", "last message")
    return reply.posts


def _orders(ruling: PsbRuling, reply: Reply, chart: Case) -> Iterator[Check]:
    posts = _accepted(reply)
    enough = len(posts) == 1 if ruling.single else len(posts) >= ruling.posts
    more = "" if ruling.single else " or more"
    yield Check("posts", enough, f"{ruling.posts}{more} accepted", f"{len(posts)} accepted")
    if not enough:
        return
    due = [one for one in ruling.due if isinstance(one, Due)]
    if ruling.single:
        yield from due[0].check(posts[0], chart)
        return
    yield from (_count(one, posts, chart) for one in [*ruling.besides, *(one for one in due if not one.own)])
    yield from _apart([one for one in due if one.own], posts, chart)
    for field in ruling.every:
        yield from (field.check(post.payload, "", chart) for post in posts)


def _misfit(order: Due, post: Post, chart: Case) -> Check | None:
    """The first failed check of a post; None if it is the order."""
    return next((check for check in order.check(post, chart) if not check.passed), None)


def _count(order: Due, posts: Sequence[Post], chart: Case) -> Check:
    """The check that enough posts are this order."""
    misfits: list[Check | None] = []
    for post in posts:
        misfits.append(_misfit(order, post, chart))
        if order.lazy and misfits[-1] is None:
            break
    fits = misfits.count(None)
    passed = fits == order.least if order.only else fits >= order.least
    reasons = "; ".join(f"post {place}: {one.name} is {one.actual}" for place, one in enumerate(misfits, 1) if one)
    expected = f"{order.least}{'' if order.only else ' or more'}"
    return Check(order.words, passed, expected, f"{fits}" if fits or not reasons else f"0 ({reasons})")


def _apart(orders: Sequence[Due], posts: Sequence[Post], chart: Case) -> Iterator[Check]:
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


OFFICIAL = RuleSet(
    "official", lenient=False, prose_counts=True, units=False, until_now=False, look=look, compare=compare
)
FAIR = replace(OFFICIAL, name="fair")
RULE_SETS: dict[RuleName, RuleSet] = {"official": OFFICIAL, "fair": FAIR}


def rule_name(text: str) -> RuleName:
    """Check the name of a rule set. Raises InputError if it is unknown."""
    for name in RULE_SETS:
        if name == text:
            return name
    raise InputError(f"unknown rules {text!r}; known: {', '.join(RULE_SETS)}")
