"""The bundled agents of benchmarks of task types, as workers get them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from medagent.agents.base import Agent, AgentContext
from medagent.fhir_episodes.episode import Scripted
from medagent.fhir_episodes.own_agents import ConstantAgent, ReplayAgent
from medagent.fhir_episodes.rule_agent import CodeRuleAgent, RuleAgent, Solve
from medagent.fhir_episodes.task import FhirTask
from refsol.clinical.chart import Chart
from refsol.clinical.meanings import CLINICAL
from refsol.clinical.sources import SessionEhr
from refsol.clinical.task_type import Solution, TaskType

Solver = Callable[[str], Solve]
"""Solves tasks over the session at a FHIR base. It can be pickled."""


@dataclass(frozen=True, slots=True)
class TypesAgent(Scripted):
    """A bundled agent with its data: constant answers by type, or recorded messages by task."""

    solver: Solver
    code: bool = False
    """Whether the reference agent acts in Python programs."""
    answers: Mapping[str, str] = field(default_factory=dict)
    messages: Mapping[str, list[str]] = field(default_factory=dict)

    def agent(self, base: str) -> Agent:
        if self.kind == "reference":
            return (CodeRuleAgent if self.code else RuleAgent)(AgentContext(base=base), self.solver(base))
        return ReplayAgent(self.messages) if self.kind == "replay" else ConstantAgent(self.answers)


def solve_by_types(types: Callable[[], Sequence[TaskType]], id_system: str, base: str) -> Solve:
    """Solves tasks by the rules of their types, over the session at a FHIR base. `id_system` is the system of the
    identifiers that texts show instead of the ids of Patients.
    """
    kinds = {kind.name: kind for kind in types()}
    base = base.rstrip("/") + "/"

    def solve(task: FhirTask, get: Callable[[str], Any]) -> Solution:
        assert task.now is not None
        ehr, patient = SessionEhr(base, get), task.mrn
        if id_system:
            patient = str(ehr.search("Patient", identifier=f"{id_system}|{task.mrn}")[0]["id"])
        return kinds[task.type].solve(Chart(ehr, patient, task.now, CLINICAL, base=base))

    return solve
