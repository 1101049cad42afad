"""The answer to "does this skill help?": two runs over the same items, which differ in one thing, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from medagent.core.number_formats import difference, difference_spread, dollars, harm_words
from medagent.engine.report import GIVES_AWAY, Report
from medagent.reports.compare import Comparison, compare_groups
from medagent.reports.tables import Cell, Table, named, print_table, put

_NAMED = 20
"""Number of items that are listed."""
_WIDTH = 100


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two runs: its name in the table, and its report."""

    name: str
    report: Report

    @property
    def right(self) -> str:
        """The number of right items, of all that are graded."""
        overall = self.report.overall
        if overall is None or overall.value is None:
            return "–"
        return f"{overall.counts['right']} of {overall.n}" if "right" in overall.counts else f"{overall.value:.4f}"

    @property
    def read(self) -> str:
        """The number of items whose deciding data was read, of those that need it."""
        grounded = self.report.overall.grounded if self.report.overall else None
        return f"{grounded.right} of {grounded.n}" if grounded and grounded.n else "–"

    @property
    def harm(self) -> str:
        """The harmful orders."""
        return harm_words(self.report.details.get("harm")) or "–"

    @property
    def tokens(self) -> float | None:
        """The tokens of an item; None if no call is known."""
        spent = self.report.spent
        return spent.usage.total / len(self.report.items) if spent.calls and self.report.items else None

    @property
    def cost(self) -> float | None:
        """The cost of an item in US dollars; None if it is unknown."""
        spent = self.report.spent
        return spent.cost / len(self.report.items) if spent.cost is not None and self.report.items else None

    @property
    def gives_away(self) -> Sequence[str]:
        """What its prompt gives away, each part with its line."""
        parts = self.report.settings.get(GIVES_AWAY)
        return [str(part) for part in parts] if isinstance(parts, list) else []


def print_sides(sides: tuple[Side, Side], compared: Comparison) -> None:
    """Print both sides, the difference, the types, and the items that the second side broke and repaired."""
    first, second = sides
    rows: list[list[Cell]] = [
        ["right", first.right, second.right],
        ["data read", first.read, second.read],
        ["harm", first.harm, second.harm],
        ["tokens an item", *(_rounded(side.tokens) for side in sides)],
        ["cost an item", *("–" if side.cost is None else dollars(side.cost) for side in sides)],
    ]
    print_table(Table(["", first.name, second.name], rows))
    for side in sides:
        for revealed in side.gives_away:
            put(*wrap(f"The prompt {side.name} gives away {revealed}", _WIDTH, subsequent_indent="  "))
    over = f" over {compared.clusters} {compared.dependence}" if compared.clusters else ""
    put(f"Difference {_difference(compared)}; p = {compared.p:.4g} ({compared.test}{over})")
    groups = compare_groups(first.report.items, second.report.items)
    if len(groups) > 1:
        names = [first.report.named(name) for name in groups]
        lines: list[list[Cell]] = [
            [name, group.tasks, *group.means, _difference(group)]
            for name, group in zip(names, groups.values(), strict=True)
        ]
        print_table(Table(["type", "items", first.name, second.name, "difference"], lines, measure="percent"))
    for words, items in _changed(sides, compared):
        text = f"{words}: {len(items)}" + (f": {named(items, _NAMED)}" if items else "")
        put(*wrap(text, _WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False))


def document(sides: tuple[Side, Side], compared: Comparison) -> Mapping[str, Any]:
    """The same as JSON."""
    first, second = sides
    groups = compare_groups(first.report.items, second.report.items)
    return {
        "sides": [_side(side) for side in sides],
        "broken": compared.lost,
        "repaired": compared.gained,
        "comparison": compared.as_json(),
        "types": {name: group.as_json() for name, group in groups.items()},
    }


def _side(side: Side) -> dict[str, Any]:
    overall = side.report.overall
    return {
        "name": side.name,
        "folder": side.report.folder,
        "overall": overall.model_dump(mode="json") if overall else None,
        "harm": side.report.details.get("harm"),
        "gives_away": list(side.gives_away),
        "tokens_per_item": side.tokens,
        "cost_per_item": side.cost,
        "complete": side.report.complete,
    }


def _changed(sides: tuple[Side, Side], compared: Comparison) -> Iterator[tuple[str, tuple[str, ...]]]:
    first, second = (side.name for side in sides)
    yield f"Broken ({first} right, {second} wrong)", compared.lost
    yield f"Repaired ({first} wrong, {second} right)", compared.gained


def _difference(compared: Comparison) -> str:
    """The difference with its 95% interval."""
    measure = compared.measure if compared.kind == "scores" else "percent"
    ends = difference_spread((compared.interval.low, compared.interval.high), measure)
    return f"{difference(compared.difference, measure)} (95% {ends})"


def _rounded(tokens: float | None) -> str:
    return "–" if tokens is None else f"{tokens:,.0f}"
