"""Training: `medagent.rl.Environment`, for TRL's `environment_factory` and loops of one's own."""

from medagent.integrations.rl import Environment, UngradedError

__all__ = ["Environment", "UngradedError"]
