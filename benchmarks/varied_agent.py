"""The reference agent with requests and a tenth of the answers that differ by trial, so that no two rows are equal."""

from __future__ import annotations

from collections.abc import Generator
from hashlib import sha256
from typing import Any

from medagent.benchmarks.medagentbench.agents.reference import SOLVERS, RecordReader, ReferenceAgent
from medagent.fhir_episodes.own_agents import SolverPolicy
from medagent.fhir_episodes.task import FhirTask


class VariedAgent(ReferenceAgent):
    """Asks for another number of resources per page in each episode, which the replies repeat."""

    def start(self, task: FhirTask, *, key: str, seed: int | None) -> SolverPolicy:
        """See `Agent.start`."""
        number = int(sha256(key.encode()).hexdigest()[:8], 16)
        solver = SOLVERS[task.type](RecordReader(self.context.base.rstrip("/"), task))
        return SolverPolicy(_varied(solver, number))


def _varied(solver: Generator[str, str, list[Any]], number: int) -> Generator[str, str, list[Any]]:
    try:
        message = next(solver)
        while True:
            message = solver.send((yield message.replace("_count=5000", f"_count={5_000 + number % 1_000_000}")))
    except StopIteration as end:
        return [number] if number % 10 == 0 else end.value
