"""Training: `medagent.rl.Environment`, for TRL's `environment_factory` or for your own loop."""

from medagent.integrations.rl import Environment, UngradedError, pair_reward

__all__ = ["Environment", "UngradedError", "pair_reward"]
