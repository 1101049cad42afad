"""An `Agent` is made once a run; the `Policy` it starts for each episode turns what it reads into its next message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from medagent.benchmarks.medagentbench.tasks.dataset import Task
from medagent.engine.rows import Spent


@dataclass(frozen=True, slots=True)
class Move:
    """An agent's next message. `problem` is set where it is a call that cannot be read as an action, and says why.

    `reasoning` is what the model's endpoint returned apart: kept in the transcript, never acted on.
    """

    text: str
    reasoning: str | None = None
    problem: str | None = None


class Policy(Protocol):
    """One episode's decisions."""

    spent: Spent
    """What the model calls of this episode cost."""

    async def next(self, observation: str) -> Move:
        """The next message, after `observation`: the prompt first, then the reply to each message.

        Raises EpisodeError or StopRunError from the model.
        """
        ...


class Agent(Protocol):
    """Starts policies; shared by all episodes of a run."""

    def start(self, task: Task, *, key: str, seed: int | None) -> Policy:
        """A fresh policy. `key` names the episode; `seed` is for the model's sampling, None for the first trial."""
        ...
