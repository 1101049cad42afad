"""The reference agent's view of a task: the patient and the time as the task's text states them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from medagent.fhir_episodes.rule_agent import Solve
from medagent.fhir_episodes.task import FhirTask
from refsol.clinical.sources import SessionEhr
from refsol.clinical.task_type import Solution
from refsol.psb300 import TYPES, stated_now
from refsol.psb300.rules import FAIR, PsbChart


def solver(now: datetime | None, base: str) -> Solve:
    """Solves tasks by the rules of their types, over the session at a FHIR base. `now` is the time for tasks whose
    context states none; None: the current time.
    """
    base = base.rstrip("/") + "/"

    def solve(task: FhirTask, get: Callable[[str], Any]) -> Solution:
        time = stated_now(task.context) or now or datetime.now(UTC)
        solution = TYPES[task.type].solve(PsbChart(SessionEhr(base, get), task.mrn, time, FAIR, base=base))
        # The tasks ask for -1 where there is no reading.
        return Solution([-1 if value is None else value for value in solution.answer], solution.posts)

    return solve
