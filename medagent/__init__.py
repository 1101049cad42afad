"""medagent runs medical agents and models on medical benchmarks, keeps what happened, and grades it."""

__version__ = "0.1.0"
