"""The scores of agents that read nothing: `nop` answers `[]`; `constant` gives each type's most frequent right answer;
`blind` does, for each type, what is right most often among all that the text allows, orders included.

An order can be placed blindly if the text states the codes and texts that it needs. If the record decides a dose, a
blind agent guesses the most frequent one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, Literal, NamedTuple, get_args

from refsol.clinical.chart import Chart
from refsol.clinical.meanings import plain
from refsol.clinical.rulings import Reply, Ruling
from refsol.clinical.task_type import TaskType, UngradableError
from refsol.errors import DataFault, FactsError

NOP_ANSWER = "[]"
BaselineName = Literal["nop", "constant", "blind"]
BASELINES: tuple[BaselineName, ...] = get_args(BaselineName)
_GUESSES = 5
"""The number of different orders per type, most frequent first, that a blind agent tries."""
_PATIENT = "{patient}"


class Behaviour(NamedTuple):
    """What an agent does on every item of a type: it gives an answer (JSON text) and places orders (JSON texts with
    `{patient}`), if the text states what they need.
    """

    answer: str
    orders: tuple[str, ...] = ()
    stated: tuple[str, ...] = ()


class Floor(NamedTuple):
    """A behaviour, and the items (ids) on which it is right."""

    behaviour: Behaviour
    right: Collection[str]


class FloorItem(NamedTuple):
    """An item: its id, its type, the texts that an agent is shown, and its chart."""

    id: str
    kind: TaskType
    words: str
    chart: Chart


Ruled = Collection[tuple[FloorItem, Ruling]]
"""Items of a type with their rulings."""


class Baselines:
    """The baselines of one task set, computed on first access."""

    def __init__(self, items: Sequence[FloorItem]) -> None:
        self._items = items

    @classmethod
    def of(
        cls, tasks: Sequence[Mapping[str, Any]], opened: Callable[[Mapping[str, Any]], tuple[TaskType, Chart]]
    ) -> Baselines:
        """The baselines of a benchmark's tasks. `opened` returns a task's type and chart, or raises UngradableError."""
        items = []
        for task in tasks:
            with suppress(UngradableError):
                kind, chart = opened(task)
                words = f"{task.get('context') or ''}\n{task.get('instruction') or ''}"
                items.append(FloorItem(str(task["id"]), kind, words, chart))
        return cls(items)

    @cached_property
    def _types(self) -> dict[str, dict[str, tuple[FloorItem, Ruling]]]:
        """The items of each type by id, without those whose charts allow no ruling."""
        types: dict[str, dict[str, tuple[FloorItem, Ruling]]] = {}
        for item in self._items:
            ruled = types.setdefault(item.kind.name, {})
            with suppress(DataFault, FactsError):
                ruled[item.id] = item, item.kind.ruled(item.chart)
        return types

    @cached_property
    def _floors(self) -> dict[str, dict[BaselineName, Floor]]:
        """The baselines of each type: the constant answer, and of it and the most frequent orders the best."""
        floors = {}
        for kind, ruled in self._types.items():
            nop, constant, *orders = (
                Floor(one, {name for name, (item, ruling) in ruled.items() if _is_right(item, ruling, one)})
                for one in (Behaviour(NOP_ANSWER), _constant(ruled.values()), *_orders(ruled.values()))
            )
            blind = max((constant, *orders), key=lambda floor: len(floor.right))
            floors[kind] = dict(zip(BASELINES, (nop, constant, blind), strict=True))
        return floors

    def outcomes(self, item: str) -> dict[str, bool | None]:
        """Whether each baseline is right on an item (by id); None if the item cannot be graded."""
        for kind, ruled in self._types.items():
            if item in ruled:
                return {name: item in floor.right for name, floor in self._floors[kind].items()}
        return dict.fromkeys(BASELINES)

    def behaviours(self, name: BaselineName) -> dict[str, Behaviour]:
        """What a baseline does, by type."""
        return {kind: floors[name].behaviour for kind, floors in self._floors.items()}


def _constant(ruled: Ruled) -> Behaviour:
    tally = Counter({NOP_ANSWER: 0})
    for _, ruling in ruled:
        if ruling.branch != "order":
            tally.update({json.dumps(plain(answer)) for answer in ruling.answers or ([],)})
    return Behaviour(max(tally, key=lambda answer: tally[answer]))


def _orders(ruled: Ruled) -> Iterator[Behaviour]:
    """The most frequent orders of a type, with the answer of each."""
    tally: Counter[Behaviour] = Counter()
    for item, ruling in ruled:
        if ruling.due:
            orders = tuple(json.dumps(one.json(item.chart)).replace(item.chart.patient, _PATIENT) for one in ruling.due)
            stated = tuple(text for one in ruling.due for text in one.stated)
            tally.update(Behaviour(json.dumps(plain(answer)), orders, stated) for answer in ruling.answers or ([],))
    yield from (behaviour for behaviour, _ in tally.most_common(_GUESSES))


def _is_right(item: FloorItem, ruling: Ruling, behaviour: Behaviour) -> bool:
    chart = item.chart
    can_order = all(text in item.words for text in (chart.patient, *behaviour.stated))
    orders = behaviour.orders if can_order else ()
    if bool(orders) != bool(ruling.due):
        return False  # an order that is not due, or no order where one is due
    bodies = [json.loads(text.replace(_PATIENT, chart.patient)) for text in orders]
    return all(check.passed for check in ruling.checks(Reply.made(behaviour.answer, bodies, chart.base), chart))
