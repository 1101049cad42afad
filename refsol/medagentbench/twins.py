"""The tasks of MedAgentBench as cases for twins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from refsol.clinical.chart import Chart
from refsol.clinical.pairs import Case, plausible
from refsol.clinical.sources import Source
from refsol.clinical.task_type import task_type
from refsol.clinical.twins import Changed
from refsol.errors import DataFault
from refsol.medagentbench._lookup import find_patient, other_patients
from refsol.medagentbench.constants import Constants
from refsol.medagentbench.grade import chart_of, type_of
from refsol.medagentbench.rules import RULE_SETS


def case_of(task: Mapping[str, Any], constants: Constants) -> Case:
    """A task as a case, under all rule sets. Raises UngradableError for an unknown type."""

    def charts(source: Source) -> Sequence[Chart]:
        answerable = _with_answer(task, source, constants)
        answerable_charts = [
            chart_of(answerable, source, rule_set, constants) for rule_set in (*RULE_SETS.values(), RULE_SETS["fair"])
        ]
        answerable_charts[-1].until_now = True
        return answerable_charts

    def answer(source: Source) -> Mapping[str, Any]:
        return {"sol": [_patient_of(task, source, constants)]}

    kind = type_of(task, constants)
    is_find = task_type(task) == "task1"
    return Case(kind, charts, other_patients, answer) if is_find else Case(kind, charts, plausible)


def _patient_of(task: Mapping[str, Any], source: Source, constants: Constants) -> str:
    """The right answer to "find a patient", by the text and the chart."""
    return find_patient(chart_of(task, source, RULE_SETS["official"], constants))


def _with_answer(task: Mapping[str, Any], source: Source, constants: Constants) -> Mapping[str, Any]:
    if task_type(task) != "task1":
        return task
    answer = _patient_of(task, source, constants)
    if not isinstance(source, Changed) and task["sol"] != [answer]:
        raise DataFault(f"its answer is {task['sol']}, but its text leads to {answer}")
    return {**task, "sol": [answer]}
