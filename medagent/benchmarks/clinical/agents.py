"""The bundled agents of benchmarks of task types, as workers get them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from medagent.agents.base import Agent, AgentContext
from medagent.fhir_episodes.episode import Scripted
from medagent.fhir_episodes.own_agents import ConstantAgent, ReplayAgent
from medagent.fhir_episodes.rule_agent import CodeRuleAgent, RuleAgent, Solve

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
