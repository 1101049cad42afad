"""The scores of agents that read nothing: `nop` answers `[]`; `constant` gives each type's most frequent right answer;
`blind` does, for each type, what is right most often among all that the text allows, orders included.

An order can be placed blindly if the text states the codes and texts that it needs. If the record decides a dose, a
blind agent guesses the most frequent one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

from refsol.clinical.chart import Chart
from refsol.clinical.meanings import plain
from refsol.clinical.rulings import Reply, Ruling
from refsol.clinical.task_type import TaskType
from refsol.errors import DataFault, FactsError
from refsol.history import Post
from refsol.json_values import json_value
from refsol.verdict import MISSING

NOP_ANSWER = "[]"
BaselineName = Literal["nop", "constant", "blind"]
BASELINES: tuple[BaselineName, ...] = get_args(BaselineName)
_GUESSES = 5
"""The number of different orders per type, most frequent first, that a blind agent tries."""
_PATIENT = "{patient}"


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What an agent does on every item of a type: it gives an answer (JSON text) and places orders (JSON texts with
    `{patient}`), if the text states what they need.
    """

    answer: str
    orders: tuple[str, ...] = ()
    stated: tuple[str, ...] = ()


NOTHING = Behaviour(NOP_ANSWER)


@dataclass(frozen=True, slots=True)
class FloorItem:
    """An item: its id, its type, the texts that an agent is shown, and a new chart of it."""

    id: str
    kind: TaskType
    words: str
    chart: Callable[[], Chart]


class Baselines:
    """The baselines of one task set. Each is computed on first access."""

    def __init__(self, items: Sequence[FloorItem]) -> None:
        self._items = {item.id: item for item in items}
        self._by_type: dict[str, list[FloorItem]] = {}
        for item in items:
            self._by_type.setdefault(item.kind.name, []).append(item)
        self._rulings: dict[str, tuple[Ruling, Chart] | None] = {}
        self._outcomes: dict[tuple[str, Behaviour], bool | None] = {}

    def outcomes(self, item: str) -> dict[str, bool | None]:
        """Whether each baseline is right on an item (by id); None if the item cannot be graded."""
        if item not in self._items:
            return dict.fromkeys(BASELINES)
        kind = self._items[item].kind.name
        behaviours = {"nop": NOTHING, "constant": self.constant[kind], "blind": self.blind[kind]}
        return {name: self._outcome(self._items[item], behaviours[name]) for name in BASELINES}

    @cached_property
    def constant(self) -> Mapping[str, Behaviour]:
        """For each type, the answer that is right most often without a POST; the first one if several are."""
        return {kind: self._answer(items) for kind, items in self._by_type.items()}

    @cached_property
    def blind(self) -> Mapping[str, Behaviour]:
        """For each type, what is right most often: the constant answer, or orders that the text spells out."""
        chosen = {}
        for kind, items in self._by_type.items():
            tries = [self.constant[kind], *self._orders(items)]
            chosen[kind] = max(tries, key=lambda one: self._right(items, one))
        return chosen

    def _right(self, items: Sequence[FloorItem], behaviour: Behaviour) -> int:
        return sum(self._outcome(item, behaviour) is True for item in items)

    def _answer(self, items: Sequence[FloorItem]) -> Behaviour:
        tally = Counter({NOP_ANSWER: 0})
        for item in items:
            ruled = self._ruled(item)
            if ruled is not None and ruled[0].branch != "order":
                tally.update({json.dumps(plain(answer)) for answer in ruled[0].answers or ([],)})
        return Behaviour(max(tally, key=lambda answer: tally[answer]))

    def _orders(self, items: Sequence[FloorItem]) -> Iterator[Behaviour]:
        """The most frequent orders of a type, with the answer of each."""
        tally: Counter[Behaviour] = Counter()
        for item in items:
            ruled = self._ruled(item)
            if ruled is None or not ruled[0].due:
                continue
            ruling, chart = ruled
            orders = tuple(json.dumps(one.json()).replace(chart.patient, _PATIENT) for one in ruling.due)
            stated = tuple(text for one in ruling.due for text in one.stated)
            for answer in ruling.answers or ([],):
                tally[Behaviour(json.dumps(plain(answer)), orders, stated)] += 1
        yield from (behaviour for behaviour, _ in tally.most_common(_GUESSES))

    def _ruled(self, item: FloorItem) -> tuple[Ruling, Chart] | None:
        """The ruling on an item before any agent acts; None if its chart allows none."""
        if item.id not in self._rulings:
            chart = item.chart()
            try:
                self._rulings[item.id] = item.kind.ruled(chart), chart
            except (DataFault, FactsError):
                self._rulings[item.id] = None
        return self._rulings[item.id]

    def _outcome(self, item: FloorItem, behaviour: Behaviour) -> bool | None:
        key = (item.id, behaviour)
        if key not in self._outcomes:
            ruled = self._ruled(item)
            self._outcomes[key] = None if ruled is None else self._judged(item, behaviour, *ruled)
        return self._outcomes[key]

    def _judged(self, item: FloorItem, behaviour: Behaviour, ruling: Ruling, chart: Chart) -> bool:
        posts = tuple(_posts(behaviour, chart)) if self._can_order(item, behaviour, chart) else ()
        if bool(posts) != bool(ruling.due):
            return False  # an order that is not due, or no order where one is due
        answer = json_value(behaviour.answer, MISSING)
        reply = Reply(answer, posts, attempted=bool(posts), unanswered=False, raw=behaviour.answer)
        return all(check.passed for check in ruling.checks(reply, chart))

    def _can_order(self, item: FloorItem, behaviour: Behaviour, chart: Chart) -> bool:
        needed = (chart.patient, *behaviour.stated)
        return bool(behaviour.orders) and all(text in item.words for text in needed)


def _posts(behaviour: Behaviour, chart: Chart) -> Iterator[Post]:
    for text in behaviour.orders:
        body: Any = json.loads(text.replace(_PATIENT, chart.patient))
        yield Post(chart.base + body["resourceType"], body)
