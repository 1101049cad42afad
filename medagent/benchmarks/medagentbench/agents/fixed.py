"""The baselines: agents that answer at once, without a look at the record.

`nop` answers `[]`; `constant` answers, for each task type, what is most often right in the data set.
"""

from __future__ import annotations

from collections.abc import Mapping

from medagent.agents.base import Agent, AgentContext, Move
from medagent.engine.rows import Spent
from medagent.fhir_episodes.task import FhirTask


class ConstantAgent(Agent):
    """Finishes each task with the answer of its type; types without one get `[]`."""

    def __init__(self, answers: Mapping[str, str]) -> None:
        super().__init__(AgentContext())
        self._answers = answers

    def start(self, task: FhirTask, *, key: str, seed: int | None) -> _FixedPolicy:
        """See `Agent.start`."""
        return _FixedPolicy([f"FINISH({self._answers.get(task.type, '[]')})"])


class _FixedPolicy:
    """Says the given messages in their order, then nothing."""

    def __init__(self, messages: list[str]) -> None:
        self._messages = iter(messages)
        self.spent = Spent()

    async def next(self, observation: str) -> Move:
        return Move(next(self._messages, ""))


class ReplayAgent(Agent):
    """Repeats recorded messages, by task id; a task that was not recorded says nothing (an invalid action)."""

    def __init__(self, messages: Mapping[str, list[str]]) -> None:
        super().__init__(AgentContext())
        self._messages = messages

    def start(self, task: FhirTask, *, key: str, seed: int | None) -> _FixedPolicy:
        """See `Agent.start`."""
        return _FixedPolicy(self._messages.get(task.id, []))
