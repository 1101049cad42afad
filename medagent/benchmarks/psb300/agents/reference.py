"""The reference agent: solves all ten types by rule, through the same session as any other agent.

It takes the patient and the time from the task, reads the chart with the benchmark's tools, and decides with
`decisions`. Under the text and tools protocols it calls the tools. Under the code protocol it sends a program.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import datetime
from inspect import getsource
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from medagent.agents.base import AgentContext
from medagent.benchmarks.psb300.agents import decisions
from medagent.fhir_episodes.code_session import fenced
from medagent.fhir_episodes.own_agents import Solver, SolverAgent, bundle_in
from medagent.fhir_episodes.task import FhirTask
from medagent.fhir_episodes.tools import Toolbox
from medagent.models.base import ToolCall
from refsol.psb300 import stated_now

Call = tuple[str, Mapping[str, Any]]
"""The name of a tool, and its arguments."""

_PROCEDURES, _RESULTS, _DRUGS = "fhir_procedure_search", "fhir_observation_search", "fhir_medication_request_search"
_READS: dict[str, tuple[Call, ...]] = {
    "task1": ((_PROCEDURES, {"code": "IMGCT0491,IMGIL0001"}),),
    "task2": ((_DRUGS, {}),),
    "task3": ((_RESULTS, {"code": "HEARTRATE"}),),
    "task4": (
        (_PROCEDURES, {"code": "NUR1373"}),
        ("patient_search", {"_revinclude": "ServiceRequest:patient"}),  # no tool searches ServiceRequests
    ),
    "task5": (
        ("fhir_condition_search", {"code": "C64.2"}),
        (_PROCEDURES, {"code": "IMGCT0491,IMGIL0001,74177"}),
    ),
    "task6": ((_RESULTS, {"code": "TSH"}), (_RESULTS, {"code": "FT4"})),
    "task7": ((_RESULTS, {"code": "QTCINTERVAL"}), (_DRUGS, {})),
    "task8": ((_DRUGS, {}),),
    "task9": ((_PROCEDURES, {"code": "90686"}),),
    "task10": ((_PROCEDURES, {"code": "COVIDVACCINE"}), (_DRUGS, {})),
}
_CREATES = {
    "ServiceRequest": "fhir_service_request_create",
    "MedicationRequest": "fhir_medication_request_create",
}
_PROGRAM = """
results = []
for resource_type, parameters in reads:
    resources = search(resource_type, **parameters)
    results.append([one for one in resources if one["resourceType"] != "Patient"])
answers, orders = decide(kind, _time(now), results)
for one in orders:
    post(one["resourceType"], fixed | one)
finish(answers)
"""


class ReferenceAgent(SolverAgent):
    """Acts through tool calls. `now` is the time for tasks whose context states none."""

    def __init__(self, context: AgentContext, toolbox: Toolbox, now: datetime) -> None:
        super().__init__(context)
        self._toolbox, self._now = toolbox, now

    def solver(self, task: FhirTask) -> Solver:
        """See `SolverAgent.solver`."""
        results = []
        for name, arguments in reads(task):
            reply = yield self._action(name, arguments)
            resources = [entry["resource"] for entry in bundle_in(reply).get("entry", [])]
            results.append([one for one in resources if one["resourceType"] != "Patient"])
        now = stated_now(task.context) or self._now
        answers, orders = decisions.decide(task.type, now, results)
        for order in orders:
            yield self._action(_CREATES[order["resourceType"]], {**fixed(task, now), **order})
        return answers

    def _action(self, name: str, arguments: Mapping[str, Any]) -> str:
        return self._toolbox.action(ToolCall("", name, json.dumps(arguments)))


class CodeReferenceAgent(ReferenceAgent):
    """Acts through one program per task, which reads, decides and orders."""

    async def play(self, task: FhirTask, prompt: str) -> AsyncIterator[str]:
        """See `Agent.play`."""
        now = stated_now(task.context) or self._now
        values = {
            "kind": task.type,
            "now": now.isoformat(),
            "reads": [self._query(name, arguments) for name, arguments in reads(task)],
            "fixed": fixed(task, now),
        }
        head = "".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items())
        yield fenced(getsource(decisions) + head + _PROGRAM)

    def _query(self, name: str, arguments: Mapping[str, Any]) -> Sequence[Any]:
        """The resource type and the parameters of a search."""
        url = urlsplit(self._action(name, arguments).removeprefix("GET "))
        return url.path.rpartition("/")[2], dict(parse_qsl(url.query))


def reads(task: FhirTask) -> Iterator[Call]:
    """The calls that read the data for a task's decision."""
    for name, arguments in _READS[task.type]:
        patient = {"identifier": task.mrn} if name == "patient_search" else {"patient": task.mrn, "_count": 5000}
        yield name, {**patient, **arguments}


def fixed(task: FhirTask, now: datetime) -> dict[str, Any]:
    """The fields that all orders have in common."""
    return {
        "status": "active",
        "intent": "order",
        "subject": {"reference": f"Patient/{task.mrn}"},
        "authoredOn": now.isoformat(),
    }
