"""The reference agent's view of a task: the patient and all constants as the task's text states them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from medagent.agents.base import AgentContext
from medagent.benchmarks.medagentbench.agents.stated import stated, stated_mrn
from medagent.fhir_episodes.rule_agent import RuleAgent, Solve
from medagent.fhir_episodes.task import FhirTask
from refsol.clinical.sources import SessionEhr, Source
from refsol.clinical.task_type import Solution
from refsol.medagentbench import TYPES
from refsol.medagentbench.rules import OFFICIAL, TaskChart


def solver(base: str, ehr: Callable[[str, Callable[[str], Any]], Source] = SessionEhr) -> Solve:
    """Solves tasks by the rules of their types, over the session at a FHIR base, which `ehr` searches."""
    base = base.rstrip("/") + "/"

    def solve(task: FhirTask, get: Callable[[str], Any]) -> Solution:
        constants = stated(task)
        patient = stated_mrn(task.instruction)
        words = {"instruction": task.instruction}
        chart = TaskChart(ehr(base, get), patient, constants.now, OFFICIAL, base=base, task=words)
        return TYPES[task.type](constants).solve(chart)

    return solve


class ReferenceAgent(RuleAgent):
    """Solves all ten types by requests. It knows the FHIR base; the task states all else that it needs."""

    def __init__(self, context: AgentContext) -> None:
        super().__init__(context, solver(context.base))
