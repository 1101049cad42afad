"""The reference agent with requests and a tenth of the answers that differ by trial, so that no two rows are equal."""

from __future__ import annotations

from hashlib import sha256

from medagent.agents.base import AgentContext
from medagent.benchmarks.medagentbench.agents.reference import ReferenceAgent
from medagent.fhir_episodes.own_agents import Solver
from medagent.fhir_episodes.task import FhirTask


class VariedAgent(ReferenceAgent):
    """Asks for another number of resources per page in each episode, which the replies repeat."""

    def __init__(self, context: AgentContext) -> None:
        super().__init__(context)
        self._episodes = 0

    def solver(self, task: FhirTask) -> Solver:
        self._episodes += 1
        return _varied(super().solver(task), int(sha256(f"{task.id} {self._episodes}".encode()).hexdigest()[:8], 16))


def _varied(solver: Solver, number: int) -> Solver:
    try:
        message = next(solver)
        while True:
            message = solver.send((yield message.replace("_count=5000", f"_count={5_000 + number % 1_000_000}")))
    except StopIteration as end:
        return [number] if number % 10 == 0 else end.value
