"""Measures episodes per second of `medagent.rl.Environment` on one core, without a model: `python -m benchmarks.rl`.

An episode is a reset to a fresh copy of the record, two tool calls (a search for a patient's readings, and the answer)
and the reward. CPU time is measured over an existing set of tasks; making a set is measured separately.
"""

from __future__ import annotations

import time
from typing import Any

from medagent.rl import Environment

EPISODES = 2000


def main() -> None:
    """Measure and print."""
    environment: Any = Environment(split="train", seed="benchmark")  # each offers the tools of its task
    begun = time.process_time()
    environment.reset(task=0)
    print(f"first episode, with its set made or opened: {time.process_time() - begun:.2f} s")
    for shape in ("official", "checks"):
        environment = Environment(split="train", seed="benchmark", reward=shape)
        begun = time.process_time()
        for number in range(EPISODES):
            environment.reset(task=number)
            environment.get_observation(code="GLU", patient=environment.task.mrn or "S1")
            environment.finish(answers=[60])
            environment.get_reward()
        print(f"{EPISODES / (time.process_time() - begun):,.0f} episodes a second a core, reward {shape}")


if __name__ == "__main__":
    main()
