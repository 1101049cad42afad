"""`medagent.rl.Environment` as an environment of OpenEnv. Its actions are OpenEnv's own, `list_tools` and `call_tool`,
so that every client of OpenEnv can play without this package.
"""

from __future__ import annotations

from threading import Lock
from typing import Any, Literal
from uuid import uuid4

from openenv.core.env_server import (
    Action,
    CallToolAction,
    CallToolObservation,
    Environment,
    ListToolsAction,
    ListToolsObservation,
    Observation,
    State,
    Tool,
)
from openenv.core.env_server.types import EnvironmentMetadata

from medagent.rl import Environment as TrainingEnvironment

TOOLS = [
    Tool(name=tool.name, description=tool.description, input_schema=tool.parameters)
    for tool in TrainingEnvironment.tools
]
ENDED = "The episode has ended."
_turn = Lock()
"""OpenEnv steps each session in a thread of its own; the FHIR server that they share is for one thread at a time."""


class FirstObservation(Observation):
    """What `reset` gives: the task's first message and the tools."""

    message: str
    tools: list[Tool]


class MedAgentBenchEnvironment(Environment[Action, Observation, State]):
    """One session's episodes. The reward comes with the observation that ends one, so that nobody can try for it."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, split: Literal["train", "dev", "ood"], seed: str, reward: Literal["official", "checks"]) -> None:
        super().__init__()
        self._training = TrainingEnvironment(split, seed, reward=reward)
        self._state = State()

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, index: int | None = None, **_: Any
    ) -> FirstObservation:
        """Begin an episode of the task of this number in the endless order; without one, of the next task.

        `seed` does the same where there is no `index`, since what is random is the task. Raises UserError.
        """
        with _turn:
            message = self._training.reset(task=seed if index is None else index)
        self._state = State(episode_id=episode_id or str(uuid4()))
        return FirstObservation(message=message, tools=TOOLS)

    def step(self, action: Action, timeout_s: float | None = None, **_: Any) -> Observation:
        """Carry out a tool call. Raises UserError before the first reset, UngradedError at an end without a verdict."""
        if isinstance(action, ListToolsAction):
            return ListToolsObservation(tools=TOOLS)
        assert isinstance(action, CallToolAction)  # the server reads no other
        with _turn:
            episode = self._training.episode
            if episode.done:
                return CallToolObservation(tool_name=action.tool_name, result=ENDED, done=True)
            reply = episode.call(action.tool_name, action.arguments) or ENDED
            reward = self._training.get_reward() if episode.done else None
        self._state.step_count += 1
        return CallToolObservation(tool_name=action.tool_name, result=reply, done=episode.done, reward=reward)

    @property
    def state(self) -> State:
        """The episode's id and the number of its steps."""
        return self._state

    def get_metadata(self) -> EnvironmentMetadata:
        """What the server says of itself."""
        return EnvironmentMetadata(
            name="medagentbench",
            description="Tasks on a hospital's electronic health record (FHIR R4), by tool calls; made from a seed.",
        )
