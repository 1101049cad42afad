"""Bundled agents: baselines, which answer without reading the record, a replay of recorded messages, and agents
that solve tasks by rules.

`nop` answers `[]`; `constant` answers, for each task type, the most frequent right answer of the data set.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Generator, Mapping
from typing import Any

from medagent.agents.base import Agent
from medagent.fhir_episodes.task import FhirTask


class ConstantAgent(Agent):
    """Finishes each task with the answer of its type; `[]` for types without one."""

    def __init__(self, answers: Mapping[str, str]) -> None:
        super().__init__()
        self._answers = answers

    async def play(self, task: FhirTask, prompt: str) -> AsyncIterator[str]:
        yield f"FINISH({self._answers.get(task.type, '[]')})"


Solver = Generator[str, str, list[Any]]
"""Yields an action, gets the reply, and returns the answers."""


class SolverAgent(Agent, ABC):
    """Acts by a solver. If the record is not as the solver expects, its message is not an action, which ends the
    episode as invalid.
    """

    @abstractmethod
    def solver(self, task: FhirTask) -> Solver:
        """The solver of a task."""

    async def play(self, task: FhirTask, prompt: str) -> AsyncIterator[str]:
        solver = self.solver(task)
        try:
            action = next(solver)
            while True:
                action = solver.send((yield action))  # type: ignore[arg-type]  # `yield` returns the reply
        except StopIteration as done:
            yield f"FINISH({json.dumps(done.value, ensure_ascii=False)})"
        except (ValueError, LookupError, TypeError) as error:
            yield f"The record is not as expected: {error!r}"


def bundle_in(reply: str) -> dict[str, Any]:
    """The Bundle in a reply, without the text around it. Raises ValueError if there is none."""
    decoder = json.JSONDecoder()
    for brace in re.finditer(r"\{", reply):
        try:
            value = decoder.raw_decode(reply, brace.start())[0]
        except ValueError:
            continue
        if value.get("resourceType") == "Bundle":
            return dict(value)
    raise ValueError("the reply holds no Bundle")


class ReplayAgent(Agent):
    """Repeats recorded messages, by task id. For other tasks it sends an empty message (an invalid action)."""

    def __init__(self, messages: Mapping[str, list[str]]) -> None:
        super().__init__()
        self._messages = messages

    async def play(self, task: FhirTask, prompt: str) -> AsyncIterator[str]:
        for message in self._messages.get(task.id, []):
            yield message
        yield ""
