"""MedAgentBench's training tasks as an OpenEnv environment, and its server (`medagent-openenv`)."""

from medagent_openenv.environment import FirstObservation, MedAgentBenchEnvironment

__all__ = ["FirstObservation", "MedAgentBenchEnvironment"]
