"""Twins: two or three items with the same words over two charts. No reply is right on both, so they count as one unit.

A pair counts as right if both twins are right and the agent had read the deciding data of both, a triple if all three
are. Trial n belongs to trial n. A unit without all verdicts does not count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from medagent.engine.harm import with_harm
from medagent.engine.report import ItemOutcome, TableLine, TableSection
from medagent.engine.scores import Grader, Item, Metrics, Score, Scored, mean_line, unit_name
from medagent.engine.settings import RunSettings

_BASELINES = ("nop", "constant", "blind")
_NO_MEMORY = (
    "Pairs assume an agent without memory between items; for others, make triples (medagent data twins --triples)."
)
T = TypeVar("T")


class _Twin(Protocol):
    @property
    def pair(self) -> str: ...


def nouns_of(items: Iterable[_Twin], plain: str = "items") -> str:
    """What items count as: `pairs` or `triples` of twins; otherwise `plain`."""
    sizes = Counter((item.pair, getattr(item, "trial", 1)) for item in items if item.pair)
    if not sizes:
        return plain
    return "triples" if 3 in sizes.values() else "pairs"


def headline(nouns: str) -> str:
    """What the score of twins counts."""
    return f"{_all_right(nouns)}, and the data read"


def _all_right(nouns: str) -> str:
    return "right on all three" if nouns == "triples" else "right on both"


def metrics_of(grader: Grader[Any], scores: Sequence[Scored]) -> Metrics:
    """The results of a run by its grader, with the tables that are the same for every benchmark: of the pairs of twins,
    of harm, and of injected instructions.
    """
    metrics = grader.metrics(scores)
    if any(score.item.pair for score in scores):
        metrics = _with_pairs(scores, metrics)
    return with_harm(scores, metrics)


def _with_pairs(scores: Sequence[Scored], metrics: Metrics) -> Metrics:
    nouns = "triples" if _size((score.item.pair, score.trial) for score in scores) == 3 else "pairs"
    read, right = pairs(scores, is_right_and_read), pairs(scores, _right)
    groups = list(dict.fromkeys(pair.item.group for pair in read))
    overall = mean_line(headline(nouns), read)
    both = mean_line(_all_right(nouns), right)
    baselines = {name: mean_line(f"baseline {name}", pairs(scores, _baseline(name))) for name in _BASELINES}
    baselines = {name: line for name, line in baselines.items() if line.n}

    def section(*lines: TableLine, detail: bool = False) -> TableSection:
        ungrounded = tuple(line.model_copy(update={"grounded": None}) for line in lines)
        return TableSection(lines=ungrounded, name="twins", count="of", detail=detail)

    sections = [
        section(*(mean_line(group, [pair for pair in read if pair.item.group == group]) for group in groups)),
        section(*baselines.values(), detail=True),
        section(overall, detail=True),
        section(both, mean_line("single items", scores)),
    ]
    names = {(score.item.pair, score.trial) for score in scores}
    incomplete = len(names) - len(read)
    notes = [f"Score: {nouns} of twins that are {headline(nouns)}."]
    if nouns == "pairs":
        notes.append(_NO_MEMORY)
    if incomplete:
        notes.append(f"Incomplete {nouns}, which do not count: {incomplete} of {len(names)}.")
    return replace(
        metrics,
        table=[*(table for table in sections if table.lines), *metrics.beside_pairs],
        overall=overall.model_copy(update={"grounded": None}),
        notes=notes,
        background=[],
        baselines={name: line.value for name, line in baselines.items()},
        measure="percent",
        figure="rate",
        count="of",
        details={
            **metrics.details,
            **({"above_blind": None} if "above_blind" in metrics.details else {}),
            "twins": {nouns: len(names), "incomplete": incomplete, **_document(overall, both)},
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


def _right(scored: Scored) -> bool | None:
    return scored.correct


def is_right_and_read(graded: _Graded) -> bool | None:
    """Whether an item is right and its data was read. None if that is unknown; a wrong item is wrong in any case."""
    if graded.correct is False:
        return False
    return graded.grounded if graded.correct else None


def _baseline(name: str) -> Verdict:
    return lambda scored: scored.score.part.get(name) if scored.score and isinstance(scored.score.part, dict) else None


def pairs(scores: Sequence[Scored], verdict: Verdict) -> list[Scored]:
    """Each pair or triple whose verdict is known, as one unit: right if all its twins are, wrong if one is."""
    united = []
    for (pair, trial), twins in _complete(scores, lambda scored: (scored.item.pair, scored.trial)):
        verdicts = [verdict(twin) for twin in twins]
        if None not in verdicts or False in verdicts:
            item = Item(id=pair, group=twins[0].item.group, patient=twins[0].item.patient)
            united.append(Scored(item, trial, f"{pair}#{trial}", "completed", Score(correct=all(verdicts))))
    return united


def counting(outcomes: Iterable[ItemOutcome]) -> list[ItemOutcome]:
    """The outcomes that comparisons and intervals count: of twins, one for each pair or triple in each trial.

    It is right if all its twins are, and harmed if any of them is.
    """
    every = list(outcomes)
    united = [outcome for outcome in every if not outcome.pair]
    for (pair, trial), twins in _complete(every, lambda outcome: (outcome.pair, outcome.trial)):
        verdicts = [is_right_and_read(twin) for twin in twins]
        correct = None if None in verdicts and False not in verdicts else all(verdicts)
        outcome = replace(twins[0], item=pair, trial=trial, cluster="", pair="", correct=correct, grounded=None)
        harmed, harmful = _any(twin.harmed for twin in twins), _any(twin.harmful for twin in twins)
        united.append(replace(outcome, harmed=harmed, harmful=harmful))
    return united


def _any(values: Iterable[bool | None]) -> bool | None:
    """Whether one of the known values is true; None if none is known."""
    known = [value for value in values if value is not None]
    return any(known) if known else None


def _complete(members: Sequence[T], name: Callable[[T], tuple[str, int]]) -> Iterator[tuple[tuple[str, int], list[T]]]:
    """The pairs or triples with all their twins, by name and trial."""
    named: dict[tuple[str, int], list[T]] = {}
    for member in members:
        if name(member)[0]:
            named.setdefault(name(member), []).append(member)
    size = _size(name(member) for member in members)
    return ((key, twins) for key, twins in named.items() if len(twins) == size)


def _size(names: Iterable[tuple[str, int]]) -> int:
    """The number of twins that belong together: 2 or 3."""
    return 3 if 3 in Counter(name for name in names if name[0]).values() else 2


def pairs_of(units: Iterable[str], items: Mapping[str, Item]) -> dict[str, str]:
    """The pair or triple of each unit that is a twin, in its trial."""
    names = {unit: unit_name(unit, items) for unit in units}
    return {unit: f"{pair}#{name.trial}" for unit, name in names.items() if name and (pair := items[name.item].pair)}


Settings = TypeVar("Settings", bound=RunSettings)
ItemT = TypeVar("ItemT", bound=Item)


def selected_pairs(
    items: Sequence[ItemT], settings: Settings, select: Callable[[Settings, Sequence[ItemT]], Sequence[ItemT]]
) -> list[ItemT]:
    """The items that a run's settings select, with all twins of each pair or triple, next to each other.

    `select` gets one twin of each, and a half or a third of the numbers in the settings.
    """
    members: dict[str, list[ItemT]] = {}
    for item in items:
        members.setdefault(item.pair or item.id, []).append(item)
    first = {item.id: twins[0].id for twins in members.values() for item in twins}
    ids = tuple(dict.fromkeys(first.get(item_id, item_id) for item_id in settings.ids))
    size = _size((item.pair, 1) for item in items)
    fewer = {name: max(1, number // size) for name in ("limit", "per_type") if (number := getattr(settings, name))}
    chosen = select(settings.model_copy(update={"ids": ids, **fewer}), [twins[0] for twins in members.values()])
    return [twin for item in chosen for twin in members[item.pair or item.id]]
