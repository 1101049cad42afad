"""The bundled agents, which work without a model: fixed answers, the whole chart, and a reference.

The reference agent parses a generated question, makes the searches that it needs, and answers from the resources. It
knows the sentences of the generator, but no answers. Under the text and tools protocols it calls the tools. Under the
code protocol it sends a program.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from inspect import getsource
from typing import Any

from medagent.agents.base import Agent, AgentContext
from medagent.benchmarks.fhiragentbench import _chart_lookup as chart_lookup
from medagent.benchmarks.fhiragentbench._items import FhirQuestionItem
from medagent.benchmarks.fhiragentbench._outputs import NOTHING
from medagent.benchmarks.fhiragentbench.generator.wording import Lookup, read
from medagent.benchmarks.fhiragentbench.strategies.plan import SEARCH, TYPES
from medagent.core.errors import UserError
from medagent.fhir_episodes.code_session import fenced
from medagent.fhir_episodes.episode import Scripted
from medagent.fhir_episodes.own_agents import ReplayAgent, Solver, SolverAgent, bundle_in
from medagent.fhir_episodes.reads import next_link, resources_of
from medagent.fhir_episodes.task import FhirItem, FhirTask
from medagent.fhir_episodes.tools import Toolbox
from medagent.models.base import ToolCall

_MORE = {
    "MedicationRequest": "&_include=MedicationRequest:medication",
    "Encounter": "&_include=Encounter:location",
}


def chart_queries(patient: str) -> Iterator[tuple[str, str]]:
    """The searches that read a whole chart, each with a second search to use if the server refuses the first, or "".

    They search every type by patient, and include the drugs of prescriptions and the locations of stays.
    """
    for kind in TYPES:
        yield f"{kind}?patient={patient}{_MORE.get(kind, '')}", f"Patient?_id={patient}" if kind == "Patient" else ""


class FetchAllAgent(Agent):
    """Reads the whole chart and answers that nothing was found."""

    async def play(self, task: FhirTask, prompt: str) -> AsyncIterator[str]:
        for query, instead in chart_queries(task.mrn):
            reply = yield _call(query)
            if instead and str(reply).startswith("{'error'"):
                yield _call(instead)
        yield f"FINISH({NOTHING})"


@dataclass(frozen=True, slots=True)
class BundledAgent(Scripted):
    """A bundled agent with its data. `messages` contains the messages of `nop` and `yes` by question id."""

    toolbox: Toolbox
    now: datetime
    code: bool = False
    """Whether the reference agent acts in Python programs."""
    messages: Mapping[str, list[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, kind: str, items: Sequence[Any], toolbox: Toolbox, now: datetime, *, code: bool) -> BundledAgent:
        """The agent with this name, for these items."""
        questions: Sequence[FhirQuestionItem] = items
        whether = {item.id for item in questions if kind == "yes" and item.asked.template.startswith("Has_verb")}
        answers = {item.id: "Yes." if item.id in whether else NOTHING for item in questions}
        messages = {name: [f"FINISH({json.dumps([answer])})"] for name, answer in answers.items()}
        return cls(kind, toolbox, now, code, messages)

    def agent(self, base: str) -> Agent:
        context = AgentContext(base=base)
        if self.kind == "reference":
            return (CodeReferenceAgent if self.code else ToolReferenceAgent)(context, self.toolbox, self.now)
        return FetchAllAgent(context) if self.kind == "fetch-all" else ReplayAgent(self.messages)


def _call(query: str) -> str:
    return f"{SEARCH.name}({json.dumps({'query': query})})"


_PROGRAM = """
resources = []
for resource_type, parameters in searches(lookup, patient):
    resources = resources + search(resource_type, **{**parameters, "_count": None})  # all pages
values, ids = answer(lookup, now, entries(lookup, now, resources))
finish(["yes" if value is True else "no" if value is False else value for value in values])
"""


class ToolReferenceAgent(SolverAgent):
    """Acts through tool calls. `now` is the hospital's time."""

    def __init__(self, context: AgentContext, toolbox: Toolbox, now: datetime) -> None:
        super().__init__(context)
        self._toolbox = toolbox
        self._now = f"{now:%Y-%m-%d %H:%M:%S}"

    def solver(self, task: FhirTask) -> Solver:
        lookup = _lookup(task)
        resources: list[dict[str, Any]] = []
        for kind, parameters in chart_lookup.searches(lookup, task.mrn):
            action = self._toolbox.action(ToolCall("", f"get_{kind.lower()}", json.dumps(parameters)))
            while action:
                bundle = bundle_in((yield action))
                resources += resources_of(bundle)
                action = f"GET {next_link(bundle)}" if next_link(bundle) else ""
        values, _ = chart_lookup.answer(lookup, self._now, chart_lookup.entries(lookup, self._now, resources))
        return stated(values)


class CodeReferenceAgent(ToolReferenceAgent):
    """Acts through one program per question, which searches and answers."""

    async def play(self, task: FhirTask, prompt: str) -> AsyncIterator[str]:
        values = {"lookup": _lookup(task), "patient": task.mrn, "now": self._now}
        head = "".join(f"{name} = {value!r}\n" for name, value in values.items())
        yield fenced(getsource(chart_lookup) + head + _PROGRAM)


def stated(values: list[Any]) -> list[Any]:
    """The values of an answer. Booleans become `yes` and `no`."""
    words = {True: "yes", False: "no"}
    return [words[value] if isinstance(value, bool) else value for value in values]


def check_readable(items: Iterable[FhirItem]) -> None:
    """Raises UserError if a question was not made by the generator."""
    for item in items:
        if read(item.question) is None:
            raise UserError(
                f"--agent reference can only read generated questions, and {item.id} is not one: leave --dataset out, "
                "or name a folder made by medagent data new --like fhir-agentbench"
            )


def _lookup(task: FhirTask) -> Lookup:
    """The lookup of a task's question. Raises ValueError if the generator did not make the question."""
    lookup = read(task.instruction)
    if lookup is None:
        raise ValueError(f"{task.id}: its question was not made by the generator")
    return lookup
