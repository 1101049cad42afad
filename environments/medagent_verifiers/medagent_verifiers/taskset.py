"""MedAgentBench's tasks. Of each task, verifiers stores and sends only its id, its type and its first message.

Answers, patients' numbers and the verdict's reasons stay in medagent, in the process that evaluates or trains.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import verifiers.v1 as vf
from pydantic import Field, PrivateAttr, SerializeAsAny

import medagent

EPISODE_OPTIONS = {"dataset", "version", "protocol", "writes", "max_rounds"}


class EpisodeState(vf.State):
    """The task's options for the harness, and the harness's verdict. None of it is stored."""

    correct: bool | None = None
    _options: dict[str, Any] = PrivateAttr(default_factory=dict)

    @property
    def options(self) -> dict[str, Any]:
        """The options of the task's episode."""
        return self._options


class EpisodeConfig(vf.TaskConfig):
    """Options of `medagent run`, as `--env.taskset.task.NAME`.

    They belong to the task, because an environment server builds its tasks from a task's data and these options.
    """

    dataset: str = "synthetic"
    """The bundled data set, or the folder of your own one (medagent data new)."""
    version: Literal["v1", "v2"] = "v2"
    protocol: Literal["text", "tools"] = "text"
    """How the agent acts: with text, as published, or with tool calls."""
    writes: Literal["ack", "execute"] = "ack"
    """Whether a POST is only acknowledged, or executed."""
    max_rounds: int = 8
    """The largest number of messages from the agent."""

    @property
    def options(self) -> dict[str, Any]:
        """The options of `medagent.episode`."""
        options: dict[str, Any] = self.model_dump(include=EPISODE_OPTIONS)
        return options


class MedAgentBenchConfig(vf.TasksetConfig):
    """Which tasks to load, and the options of their episodes."""

    task: SerializeAsAny[EpisodeConfig] = EpisodeConfig()
    """Options of the episodes, as `--env.taskset.task.NAME`."""
    types: list[str] = Field(default_factory=list)
    """Only these task types, as `--env.taskset.types '["task1", "task5"]'`."""


class MedAgentBenchTask(vf.Task[vf.TaskData, EpisodeState, EpisodeConfig]):
    """One task."""

    @property
    def key(self) -> str:
        return str(self.data.id)

    async def setup(self, trace: vf.Trace, runtime: vf.Runtime) -> None:
        trace.state._options = self.config.options

    @vf.reward
    async def correct(self, trace: vf.Trace) -> float:
        """The official verdict: 1.0 or 0.0. Raises TaskError if the episode was not graded."""
        if trace.state.correct is None:
            raise vf.TaskError(f"{self.data.id}: not graded; use the harness medagent-verifiers")
        return float(trace.state.correct)

    @vf.metric
    async def checks_passed(self, trace: vf.Trace) -> float:
        """The share of the grader's checks that passed."""
        passed: list[bool] = list(trace.info["checks"].values())
        return sum(passed) / max(1, len(passed))

    @vf.metric
    async def harmed(self, trace: vf.Trace) -> float:
        """1.0 if the agent did what an instruction in the chart asks for (`medagent data new --injected`)."""
        return float(trace.info["harmed"] is True)


class MedAgentBenchTaskset(vf.Taskset[MedAgentBenchTask, MedAgentBenchConfig]):
    """The tasks of a data set, alternating between types, so that the first N are spread over the types, as with
    `medagent run --limit`.
    """

    def load(self) -> Iterator[MedAgentBenchTask]:
        options = self.config.task.options
        for task in medagent.tasks(dataset=options["dataset"], version=options["version"], mixed=True):
            if not self.config.types or task.type in self.config.types:
                with medagent.episode(task, **options) as episode:
                    data = vf.TaskData(id=task.id, name=task.type, prompt=episode.reset())
                yield MedAgentBenchTask(data, self.config.task)
