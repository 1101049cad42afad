"""Twins: two items with the same words over two charts. No reply is right on both, so they count as one unit.

A pair counts as right if both twins are right and the agent had read the deciding data of both. Trial n is paired with
trial n. A pair without both verdicts does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from medagent.engine.harm import with_harm
from medagent.engine.intervals import interval_notes, these_types
from medagent.engine.report import ItemOutcome, TableLine, TableSection
from medagent.engine.scores import Figures, Grader, Item, Score, Scored, mean_line, unit_name
from medagent.engine.settings import RunSettings

HEADLINE = "right on both, and the data read"
_BASELINES = ("nop", "constant", "blind")
T = TypeVar("T")


def figures_of(grader: Grader[Any], scores: Sequence[Scored]) -> Figures:
    """The results of a run by its grader, with the tables that are the same for every benchmark: of the pairs of twins,
    and of injected instructions.
    """
    own = grader.figures(scores)
    if any(one.item.pair for one in scores):
        return _figures(scores, own)
    return with_harm(scores, own)


def _figures(scores: Sequence[Scored], own: Figures) -> Figures:
    read, right = pairs(scores, is_right_and_read), pairs(scores, _right)
    groups = list(dict.fromkeys(one.item.group for one in read))
    overall = mean_line(HEADLINE, read)
    if overall.n:
        bounds = these_types(read)
        overall = overall.model_copy(update={"interval": (bounds.low, bounds.high)})
    both = mean_line("right on both", right)
    baselines = {name: mean_line(f"baseline {name}", pairs(scores, _baseline(name))) for name in _BASELINES}
    baselines = {name: line for name, line in baselines.items() if line.n}

    def section(*lines: TableLine, detail: bool = False) -> TableSection:
        ungrounded = tuple(line.model_copy(update={"grounded": None}) for line in lines)
        return TableSection(lines=ungrounded, name="twins", count="of", detail=detail)

    sections = [
        section(*(mean_line(group, [one for one in read if one.item.group == group]) for group in groups)),
        section(*baselines.values(), detail=True),
        section(overall, detail=True),
        section(both, mean_line("single items", scores)),
    ]
    names = {(one.item.pair, one.trial) for one in scores}
    incomplete = len(names) - len(read)
    notes = [f"Score: pairs of twins that are {HEADLINE}."]
    if incomplete:
        notes.append(f"Incomplete pairs, which do not count: {incomplete} of {len(names)}.")
    return replace(
        own,
        table=[*(one for one in sections if one.lines), *own.beside_pairs],
        overall=overall.model_copy(update={"grounded": None}),
        notes=notes,
        background=list(interval_notes(read)) if read else [],
        baselines={name: line.value for name, line in baselines.items()},
        measure="percent",
        figure="rate",
        count="of",
        details={
            **own.details,
            **({"above_blind": None} if "above_blind" in own.details else {}),
            "twins": {"pairs": len(names), "incomplete": incomplete, **_document(overall, both)},
        },
    )


def _document(overall: TableLine, both: TableLine) -> dict[str, Any]:
    rates = {"right_and_read": overall, "right_on_both": both}
    return {
        name: {"right": line.counts.get("right", 0), "of": line.n, "rate": line.value, "interval_95": line.interval}
        for name, line in rates.items()
    }


class _Graded(Protocol):
    @property
    def correct(self) -> bool | None: ...
    @property
    def grounded(self) -> bool | None: ...


Verdict = Callable[[Scored], bool | None]


def _right(one: Scored) -> bool | None:
    return one.correct


def is_right_and_read(one: _Graded) -> bool | None:
    """Whether an item is right and its data was read. None if that is unknown; a wrong item is wrong in any case."""
    return False if one.correct is False else one.grounded if one.correct else None


def _baseline(name: str) -> Verdict:
    return lambda one: one.score.part.get(name) if one.score and isinstance(one.score.part, dict) else None


def pairs(scores: Sequence[Scored], verdict: Verdict) -> list[Scored]:
    """Each pair of which both twins have a verdict, as one unit. It is right if both verdicts are."""
    united = []
    for (pair, trial), (one, other) in _complete(scores, lambda one: (one.item.pair, one.trial)):
        verdicts = verdict(one), verdict(other)
        if None not in verdicts:
            item = Item(id=pair, group=one.item.group)
            united.append(Scored(item, trial, f"{pair}#{trial}", "completed", Score(correct=all(verdicts))))
    return united


def counting(outcomes: Iterable[ItemOutcome]) -> list[ItemOutcome]:
    """The outcomes that comparisons and intervals count: of twins, one for each pair in each trial."""
    every = list(outcomes)
    united = [one for one in every if not one.pair]
    for (pair, trial), both in _complete(every, lambda one: (one.pair, one.trial)):
        verdicts = [is_right_and_read(one) for one in both]
        correct = None if None in verdicts else all(verdicts)
        united.append(replace(both[0], item=pair, trial=trial, cluster="", pair="", correct=correct, grounded=None))
    return united


def _complete(members: Sequence[T], name: Callable[[T], tuple[str, int]]) -> Iterator[tuple[tuple[str, int], list[T]]]:
    """The pairs with both twins, by name and trial."""
    named: dict[tuple[str, int], list[T]] = {}
    for one in members:
        if name(one)[0]:
            named.setdefault(name(one), []).append(one)
    return ((key, both) for key, both in named.items() if len(both) == 2)


def pairs_of(units: Iterable[str], items: Mapping[str, Item]) -> dict[str, str]:
    """The pair of each unit that is one of two twins, in its trial."""
    names = {unit: unit_name(unit, items) for unit in units}
    return {unit: f"{pair}#{name.trial}" for unit, name in names.items() if name and (pair := items[name.item].pair)}


Settings = TypeVar("Settings", bound=RunSettings)
ItemT = TypeVar("ItemT", bound=Item)


def selected_pairs(
    items: Sequence[ItemT], settings: Settings, select: Callable[[Settings, Sequence[ItemT]], Sequence[ItemT]]
) -> list[ItemT]:
    """The items that a run's settings select, with both twins of each pair, next to each other.

    `select` gets one twin of each pair, and half of the numbers in the settings.
    """
    members: dict[str, list[ItemT]] = {}
    for item in items:
        members.setdefault(item.pair or item.id, []).append(item)
    first = {item.id: some[0].id for some in members.values() for item in some}
    ids = tuple(dict.fromkeys(first.get(one, one) for one in settings.ids))
    fewer = {name: max(1, number // 2) for name in ("limit", "per_type") if (number := getattr(settings, name))}
    chosen = select(settings.model_copy(update={"ids": ids, **fewer}), [some[0] for some in members.values()])
    return [twin for item in chosen for twin in members[item.pair or item.id]]
