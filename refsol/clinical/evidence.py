"""What follows from a chart's record: the reason of a ruling, its branch in words, and the test that decided."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from refsol._moments import length_words, margin_words
from refsol.clinical.chart import Chart, Compared
from refsol.clinical.codes import Lab
from refsol.clinical.rulings import Ruling
from refsol.clinical.searches import time_text
from refsol.verdict import Because

ONE_HOUR = timedelta(hours=1)


def because(chart: Chart, ruling: Ruling) -> Because:
    """The reason of a ruling: the reads, the limits that decided, and what follows."""
    facts = tuple(fact for needed in chart.needed for fact in needed.facts)
    if ruling.because:
        return Because(ruling.because, facts)
    reads = map(str, chart.searched)
    limits = [f"{words}{margin}" for words, margin in _limits(_decisive(chart))]
    parts = "; ".join([*reads, *([", ".join(limits)] if limits else [])])
    follows = {
        "query": "",
        "no order": "nothing to order",
        "order": " and ".join([*(order.words for order in ruling.due), *(edit.words for edit in ruling.edits)]),
    }
    consequence = follows[ruling.branch]
    arrow = " → " if limits else "; "
    return Because(f"{parts}{arrow}{consequence}" if consequence and parts else parts or consequence, facts)


def _decisive(chart: Chart) -> list[Compared]:
    """The comparisons of the resources on which the ruling rests."""
    used = {id(resource) for searched in chart.searched for resource in searched.used}
    return [comparison for comparison in chart.compared if used.issuperset(map(id, comparison.used))]


def _limits(compared: Sequence[Compared]) -> Iterator[tuple[str, str]]:
    """The limits that decided, in words: for a value the range in which it is, for a time its side of the limit. Each
    with the distance of a time from its limit, if that is small.
    """
    values: dict[tuple[float, ...], list[Compared]] = {}
    for comparison in compared:
        if comparison.what == "value":
            values.setdefault((comparison.actual, *map(id, comparison.used)), []).append(comparison)
        else:
            yield (
                _side(comparison),
                margin_words(comparison.actual, comparison.limit) if comparison.actual.tzinfo is not None else "",
            )
    for group in values.values():
        yield " ".join(filter(None, (group[0].words, range_words(group)))), ""


def _side(comparison: Compared) -> str:
    return f"{'' if comparison.outcome else 'not '}{comparison.words or f'before {comparison.limit.isoformat()}'}"


def branch_words(chart: Chart) -> str:
    """The branch of a rule in words: what it did not find, and the limits that decided. Patients of one branch have the
    same words.
    """
    absent = [f"no {searched.name}" for searched in chart.searched if not searched.used]
    sexes = [
        str(person["gender"]) for searched in chart.searched if searched.what == "gender" for person in searched.used
    ]
    return ", ".join([*sexes, *absent, *dict.fromkeys(words for words, _ in _limits(_decisive(chart)))]) or "any"


def is_edge(chart: Chart) -> bool:
    """Whether a decision was close: a value at its limit, a time within an hour of its limit or of a window's start."""
    starts = [searched.search.start for searched in chart.searched if searched.search.start is not None]
    return any(map(_is_close, chart.compared)) or any(
        _is_near(time_text(resource), start) for resource in chart.touched.values() for start in starts
    )


def _is_near(text: str | None, moment: datetime) -> bool:
    try:
        return abs(datetime.fromisoformat(text or "") - moment) < ONE_HOUR
    except (TypeError, ValueError):
        return False


def _is_close(comparison: Compared) -> bool:
    distance = abs(comparison.actual - comparison.limit)
    if comparison.what == "time":
        return bool(distance < ONE_HOUR)
    decimals = (
        len(f"{comparison.limit:.9g}".partition(".")[2]) or 1
    )  # at least those of a value one step away from the limit
    return bool(distance <= 10.0**-decimals + 1e-9)


def range_words(compared: Sequence[Compared]) -> str:
    """The range of a value that some comparisons show: `below 1`, `1 to below 1.5`, `1.5 to 1.9`, `above 1.9`; or
    `exactly 2`, `above 1.9, not 2`.
    """
    if exact := [comparison for comparison in compared if comparison.op == "==" and comparison.outcome]:
        return f"exactly {exact[0].limit:g}"
    others = dict.fromkeys(f"not {comparison.limit:g}" for comparison in compared if comparison.op == "==")
    between = _between([comparison for comparison in compared if comparison.op != "=="])
    return ", ".join([*([between] if between else []), *others])


def _between(compared: Sequence[Compared]) -> str:
    lower = [comparison for comparison in compared if (comparison.op in (">", ">=")) == comparison.outcome]
    upper = [comparison for comparison in compared if (comparison.op in ("<", "<=")) == comparison.outcome]
    low = max(lower, key=lambda comparison: comparison.limit, default=None)
    high = min(upper, key=lambda comparison: comparison.limit, default=None)
    open_low = low is not None and _excludes(low)
    open_high = high is not None and _excludes(high)
    if low is not None and high is not None:
        start = f"above {low.limit:g}" if open_low else f"{low.limit:g}"
        return f"{start} to {'below ' if open_high else ''}{high.limit:g}"
    if high is not None:
        return f"{'below' if open_high else 'not above'} {high.limit:g}"
    if low is not None:
        return f"{'above' if open_low else 'not below'} {low.limit:g}"
    return ""


def _excludes(comparison: Compared) -> bool:
    """Whether the limit itself is outside of the range: `<` and `>` if they hold, `<=` and `>=` if they do not."""
    return (comparison.op in ("<", ">")) == comparison.outcome


class Deciding(NamedTuple):
    """The laboratory test that decided, for a picture: its window, and the limits with words.

    `start` is the start of the window or the limit of age, None if every reading counts; `window` describes it.
    """

    lab: Lab
    start: datetime | None
    window: str
    limits: tuple[tuple[float, str], ...]
    is_mean: bool

    @classmethod
    def of(cls, chart: Chart) -> Deciding | None:
        """The first test that a rule read. None if it read none."""
        searched = next((search for search in chart.searched if search.lab is not None), None)
        if searched is None or searched.lab is None:
            return None
        limits: dict[float, str] = {}
        start, window = searched.search.start, "the latest reading counts, however old"
        if start is not None:
            window = f"the last {length_words(chart.now - start)} count"
        deciding = set(map(id, searched.used))
        for comparison in chart.compared:
            if deciding.isdisjoint(map(id, comparison.used)):
                continue
            if comparison.what == "value":
                limits[comparison.limit] = range_words([comparison])
            else:
                start, window = comparison.limit, f"not {comparison.words or 'before the limit'}"
        return cls(searched.lab, start, window, tuple(limits.items()), searched.how == "mean")
