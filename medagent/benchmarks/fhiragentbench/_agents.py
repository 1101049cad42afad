"""The bundled agents, which need no model: one gives fixed answers, one reads a patient's whole chart."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from medagent.agents.base import Agent, AgentContext
from medagent.benchmarks.fhiragentbench._items import QuestionItem
from medagent.benchmarks.fhiragentbench._outputs import NOTHING
from medagent.benchmarks.fhiragentbench.strategies.plan import SEARCH, TYPES
from medagent.fhir_episodes.episode import Scripted
from medagent.fhir_episodes.own_agents import ReplayAgent
from medagent.fhir_episodes.task import FhirTask
from medagent.fhir_episodes.tools import Toolbox

_MORE = {
    "MedicationRequest": "&_include=MedicationRequest:medication",
    "Encounter": "&_include=Encounter:location",
}


def chart_queries(patient: str) -> Iterator[tuple[str, str]]:
    """The searches that read a whole chart. Each has a second search to use if the server refuses the first, or "".

    They search every type by patient, and include the drugs of prescriptions and the locations of stays.
    """
    for kind in TYPES:
        yield f"{kind}?patient={patient}{_MORE.get(kind, '')}", f"Patient?_id={patient}" if kind == "Patient" else ""


class FetchAllAgent(Agent):
    """Reads the whole chart and answers that nothing was found."""

    async def play(self, task: FhirTask, prompt: str) -> AsyncIterator[str]:
        """See `Agent.play`."""
        for query, instead in chart_queries(task.mrn):
            reply = yield _call(query)
            if instead and str(reply).startswith("{'error'"):
                yield _call(instead)
        yield f"FINISH({NOTHING})"


@dataclass(frozen=True, slots=True)
class OwnAgent(Scripted):
    """A bundled agent with its data. `messages` are those of `nop` and `yes`, by question id."""

    toolbox: Toolbox
    now: datetime
    code: bool = False
    """Whether the reference agent acts in Python programs."""
    messages: Mapping[str, list[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, kind: str, items: Sequence[Any], toolbox: Toolbox, now: datetime, *, code: bool) -> OwnAgent:
        """The agent with this name, for these items."""
        questions: Sequence[QuestionItem] = items
        whether = {item.id for item in questions if kind == "yes" and item.asked.template.startswith("Has_verb")}
        answers = {item.id: "Yes." if item.id in whether else NOTHING for item in questions}
        messages = {name: [f"FINISH({json.dumps([answer])})"] for name, answer in answers.items()}
        return cls(kind, toolbox, now, code, messages)

    def agent(self, base: str) -> Agent:
        """See `Scripted.agent`."""
        from medagent.benchmarks.fhiragentbench._reference import CodeReferenceAgent, ReferenceAgent

        context = AgentContext(base=base)
        if self.kind == "reference":
            return (CodeReferenceAgent if self.code else ReferenceAgent)(context, self.toolbox, self.now)
        return FetchAllAgent(context) if self.kind == "fetch-all" else ReplayAgent(self.messages)


def _call(query: str) -> str:
    return f"{SEARCH.name}({json.dumps({'query': query})})"
