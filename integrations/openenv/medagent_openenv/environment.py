"""`medagent.rl.Environment` as an OpenEnv environment. Its actions are OpenEnv's `list_tools` and `call_tool`, so that
every OpenEnv client can use it without this package.
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
"""OpenEnv runs each session in its own thread; the shared FHIR server allows one thread at a time."""


class FirstObservation(Observation):
    """The reply to `reset`: the task's first message and the tools."""

    message: str
    tools: list[Tool]


class MedAgentBenchEnvironment(Environment[Action, Observation, State]):
    """One session's episodes. Only the last observation of an episode has the reward, so that no agent can probe it. If
    the chart has an instruction, the same observation says whether the agent did what it asks for.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(
        self, split: Literal["train", "dev", "ood"], seed: str, reward: Literal["official", "checks"], injected: str
    ) -> None:
        super().__init__()
        self._training = TrainingEnvironment(split, seed, reward=reward, injected=injected)
        self._state = State()

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, index: int | None = None, **_: Any
    ) -> FirstObservation:
        """Begin an episode of task number `index` of the endless series, or, without an index, of the next task.

        Without `index`, `seed` is used as the number, since only the choice of the task is random. Raises UserError.
        """
        with _turn:
            message = self._training.reset(task=seed if index is None else index)
        self._state = State(episode_id=episode_id or str(uuid4()))
        return FirstObservation(message=message, tools=TOOLS)

    def step(self, action: Action, timeout_s: float | None = None, **_: Any) -> Observation:
        """Execute a tool call. Raises UserError before the first reset, UngradedError if an ended episode has no
        verdict.
        """
        if isinstance(action, ListToolsAction):
            return ListToolsObservation(tools=TOOLS)
        assert isinstance(action, CallToolAction)  # the server accepts no other action
        with _turn:
            episode = self._training.episode
            if episode.done:
                return CallToolObservation(tool_name=action.tool_name, result=ENDED, done=True)
            reply = episode.call(action.tool_name, action.arguments) or ENDED
            reward = self._training.get_reward() if episode.done else None
            harmed = self._training.harmed if episode.done else None
        self._state.step_count += 1
        return CallToolObservation(
            tool_name=action.tool_name,
            result=reply,
            done=episode.done,
            reward=reward,
            metadata={} if harmed is None else {"harmed": harmed},
        )

    @property
    def state(self) -> State:
        """The episode's id and the number of its steps."""
        return self._state

    def get_metadata(self) -> EnvironmentMetadata:
        """The name and description that the server returns."""
        return EnvironmentMetadata(
            name="medagentbench",
            description="Tasks on a hospital's electronic health record (FHIR R4), by tool calls; made from a seed.",
        )
