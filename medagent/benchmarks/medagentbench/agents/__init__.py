"""Who decides the next action of an episode."""

from medagent.benchmarks.medagentbench.agents.base import Agent, Move, Policy

__all__ = ["Agent", "Move", "Policy"]
