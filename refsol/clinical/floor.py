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
    """The baselines of one task set. Those of a type are computed when one of its items is graded."""

    def __init__(self, kinds: Mapping[str, str], items_of: Callable[[str], Sequence[FloorItem]]) -> None:
        """`kinds` are the types of the items (ids). `items_of` returns the items of a type."""
        self._kinds = kinds
        self._items_of = items_of
        self._types: dict[str, TypeFloors] = {}

    @classmethod
    def of(
        cls, tasks: Sequence[Mapping[str, Any]], opened: Callable[[Mapping[str, Any]], tuple[TaskType, Chart]]
    ) -> Baselines:
        """The baselines of a benchmark's tasks. `opened` returns a task's type and chart, or raises UngradableError."""
        items: dict[str, list[FloorItem]] = {}
        for task in tasks:
            with suppress(UngradableError):
                kind, chart = opened(task)
                words = f"{task.get('context') or ''}\n{task.get('instruction') or ''}"
                items.setdefault(kind.name, []).append(FloorItem(str(task["id"]), kind, words, chart))
        kinds = {item.id: kind for kind, members in items.items() for item in members}
        return cls(kinds, lambda kind: items[kind])

    def _floors(self, kind: str) -> TypeFloors:
        if kind not in self._types:
            self._types[kind] = TypeFloors.of(self._items_of(kind))
        return self._types[kind]

    def outcomes(self, item: str) -> dict[str, bool | None]:
        """Whether each baseline is right on an item (by id); None if the item cannot be graded."""
        kind = self._kinds.get(item)
        if kind is None or item not in (floors := self._floors(kind)).graded:
            return dict.fromkeys(BASELINES)
        return {name: item in floor.right for name, floor in floors.floors.items()}

    def behaviours(self, name: BaselineName) -> dict[str, Behaviour]:
        """What a baseline does, by type."""
        return {kind: self._floors(kind).floors[name].behaviour for kind in dict.fromkeys(self._kinds.values())}


class TypeFloors(NamedTuple):
    """The baselines of a type, and its items (ids) whose charts allow a ruling."""

    graded: Collection[str]
    floors: Mapping[BaselineName, Floor]

    @classmethod
    def of(cls, items: Sequence[FloorItem]) -> TypeFloors:
        """The constant answer, and of it and the most frequent orders the best."""
        ruled: dict[str, tuple[FloorItem, Ruling]] = {}
        for item in items:
            with suppress(DataFault, FactsError):
                ruled[item.id] = item, item.kind.ruled(item.chart)
        behaviours = (Behaviour(NOP_ANSWER), _constant(ruled.values()), *_orders(ruled.values()))
        nop, constant, *orders = (_floor(ruled, behaviour) for behaviour in behaviours)
        blind = max((constant, *orders), key=lambda floor: len(floor.right))
        return cls(ruled.keys(), dict(zip(BASELINES, (nop, constant, blind), strict=True)))


def _floor(ruled: Mapping[str, tuple[FloorItem, Ruling]], behaviour: Behaviour) -> Floor:
    right = {name for name, (item, ruling) in ruled.items() if _is_right(item, ruling, behaviour)}
    return Floor(behaviour, right)


def is_idle_right(ruling: Ruling, chart: Chart) -> bool:
    """Whether an agent is right that does nothing: no order, and the answer `[]`."""
    return _accepts(ruling, chart, Behaviour(NOP_ANSWER))


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
            orders = tuple(
                json.dumps(order.json(item.chart)).replace(item.chart.patient, _PATIENT) for order in ruling.due
            )
            stated = tuple(text for order in ruling.due for text in order.stated)
            tally.update(Behaviour(json.dumps(plain(answer)), orders, stated) for answer in ruling.answers or ([],))
    yield from (behaviour for behaviour, _ in tally.most_common(_GUESSES))


def _is_right(item: FloorItem, ruling: Ruling, behaviour: Behaviour) -> bool:
    can_order = all(text in item.words for text in (item.chart.patient, *behaviour.stated))
    return _accepts(ruling, item.chart, behaviour if can_order else behaviour._replace(orders=()))


def _accepts(ruling: Ruling, chart: Chart, behaviour: Behaviour) -> bool:
    """Whether a behaviour is right, whatever the text states."""
    if bool(behaviour.orders) != bool(ruling.due):
        return False  # an order that is not due, or no order where one is due
    bodies = [json.loads(text.replace(_PATIENT, chart.patient)) for text in behaviour.orders]
    return all(check.passed for check in ruling.checks(Reply.with_orders(behaviour.answer, bodies, chart.base), chart))
