"""The scores of agents that read nothing. `nop` answers `[]`. `constant` gives each type's most frequent right answer.
`blind` does, for each type, what is right most often among everything the task's text allows, including orders.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, get_args

from refsol.medagentbench._blind import Behaviour, doses, history
from refsol.medagentbench.constants import PUBLISHED, Constants
from refsol.medagentbench.facts import Facts
from refsol.medagentbench.grade import evaluate_unanswered, grade_item, task_type
from refsol.medagentbench.tasks import Evaluation

NOP_ANSWER = "[]"
_NOTHING = Behaviour(NOP_ANSWER)
BaselineName = Literal["nop", "constant", "blind"]
BASELINES: tuple[BaselineName, ...] = get_args(BaselineName)
_GUESSES = 5
"""The number of levels per type, most frequent first, for which a blind agent's dose is tried."""


class Baselines:
    """The baselines of one task set under the official rules. Each is computed on first access."""

    def __init__(self, tasks: Sequence[Mapping[str, Any]], facts: Facts, constants: Constants = PUBLISHED) -> None:
        self._facts, self._constants = facts, constants
        self._by_type: dict[str, list[Mapping[str, Any]]] = {}
        for task in tasks:
            self._by_type.setdefault(task_type(task), []).append(task)
        self._outcomes: dict[tuple[str, Behaviour], bool | None] = {}
        self._evaluations: dict[str, Evaluation | None] = {}

    def outcomes(self, task: Mapping[str, Any]) -> dict[str, bool | None]:
        """Whether each baseline is right on a task; None if the task cannot be graded."""
        kind = task_type(task)
        behaviours = {"nop": _NOTHING, "constant": self.constant.get(kind), "blind": self.blind.get(kind)}
        return {name: self._outcome(task, behaviours[name] or _NOTHING) for name in BASELINES}

    @cached_property
    def constant(self) -> Mapping[str, Behaviour]:
        """For each type, the answer that is right most often without a POST; the first one if several are."""
        return {kind: Behaviour(self._answer(tasks)) for kind, tasks in self._by_type.items()}

    @cached_property
    def blind(self) -> Mapping[str, Behaviour]:
        """For each type, what is right most often: the constant answer, or orders that the text spells out."""
        chosen = {}
        for kind, tasks in self._by_type.items():
            tries = [self.constant[kind], *self._orders(kind, tasks)]
            chosen[kind] = max(tries, key=lambda one: sum(self._outcome(task, one) is True for task in tasks))
        return chosen

    def _answer(self, tasks: Sequence[Mapping[str, Any]]) -> str:
        tally = Counter({NOP_ANSWER: 0})
        for task in tasks:
            evaluation = self._evaluation(task)
            if evaluation is not None and evaluation.branch != "order":
                tally.update({json.dumps(answer) for answer in evaluation.accepted})
        return max(tally, key=lambda answer: tally[answer])

    def _orders(self, kind: str, tasks: Sequence[Mapping[str, Any]]) -> Iterator[Behaviour]:
        levels: Counter[float] = Counter()
        for task in tasks:
            evaluation = self._evaluation(task)
            if evaluation is not None and evaluation.branch == "order":
                values = (fact.value for fact in evaluation.because.facts)
                levels.update(float(value) for value in values if isinstance(value, int | float))
        for dose in doses(kind, [level for level, _ in levels.most_common(_GUESSES)], self._constants):
            yield Behaviour(NOP_ANSWER, kind, dose)

    def _evaluation(self, task: Mapping[str, Any]) -> Evaluation | None:
        key = str(task.get("id"))
        if key not in self._evaluations:
            self._evaluations[key] = evaluate_unanswered(task, self._facts, self._constants)
        return self._evaluations[key]

    def _outcome(self, task: Mapping[str, Any], behaviour: Behaviour) -> bool | None:
        key = (str(task.get("id")), behaviour)
        if key not in self._outcomes:
            messages, required = history(behaviour, task, self._constants), self._evaluation(task)
            if required is not None and (required.branch == "order") != bool(messages):
                self._outcomes[key] = False  # an order that is not due, or no order where one is due
            else:
                verdict = grade_item(task, behaviour.answer, messages, self._facts, constants=self._constants)
                self._outcomes[key] = verdict.correct
        return self._outcomes[key]
