"""MedAgentBench in verifiers: `vf-eval medagent-verifiers`. verifiers finds the two classes by `__all__`."""

from medagent_verifiers.harness import MedAgentBenchHarness
from medagent_verifiers.taskset import MedAgentBenchTaskset

__all__ = ["MedAgentBenchHarness", "MedAgentBenchTaskset"]
