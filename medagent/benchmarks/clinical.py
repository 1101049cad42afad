"""The base of the benchmarks that are sets of clinical task types: their bundled agents follow from the types."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, TypeVar

from medagent.agents.base import Agent, AgentContext
from medagent.fhir_episodes.benchmark import FhirBenchmark
from medagent.fhir_episodes.episode import Scripted
from medagent.fhir_episodes.own_agents import ConstantAgent, ReplayAgent
from medagent.fhir_episodes.rule_agent import CodeRuleAgent, RuleAgent, Solve
from medagent.fhir_episodes.settings import FhirSettings
from medagent.fhir_episodes.task import FhirItem
from refsol.clinical.floor import Baselines
from refsol.failures import KIND_WORDS

SettingsT = TypeVar("SettingsT", bound=FhirSettings)
Solver = Callable[[str], Solve]
"""Solves tasks over the session at a FHIR base. It can be pickled."""


@dataclass(frozen=True, slots=True)
class OwnAgent(Scripted):
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


class ClinicalBenchmark(FhirBenchmark[SettingsT]):
    """A set of tasks of clinical types."""

    tool_agents = ("reference",)
    kinds: ClassVar[Mapping[str, str]] = {str(kind): words for kind, words in KIND_WORDS.items()}

    @abstractmethod
    def solver(self, settings: SettingsT) -> Solver:
        """The reference agent's solver: it knows what the tasks state, and the rules of their types."""

    @abstractmethod
    def baselines(self, settings: SettingsT) -> Baselines:
        """The scores of agents that read nothing, on the tasks of a source."""

    def scripted(self, settings: SettingsT, items: Sequence[FhirItem]) -> OwnAgent | None:
        agent = settings.agent
        if agent is None or agent == "text" or agent not in self.agents:
            return None
        answers = {}
        if agent == "constant":
            answers = {
                kind: behaviour.answer for kind, behaviour in self.baselines(settings).behaviours("constant").items()
            }
        return OwnAgent(agent, self.solver(settings), settings.protocol == "code", answers)
