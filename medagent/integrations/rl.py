"""MedAgentBench as an environment for training: `reset`, a method a tool, `get_reward`; synchronous, in this process.

    environment = Environment(split="train", seed="1")
    prompt = environment.reset(task=17)
    reply = environment.get_patient(family="Nagy")
    environment.finish(answers=["S6530532"])
    reward = environment.get_reward()

TRL's `GRPOTrainer(environment_factory=Environment)` takes it as it is: whatever is public and a function, apart from
`reset` and `get_reward`, is a tool there. The methods are made from the function list that a run offers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from inspect import Parameter, Signature
from pathlib import Path
from shutil import rmtree
from typing import Any, ClassVar, Literal

from medagent.api import episode
from medagent.benchmarks.medagentbench.tasks.dataset import Task, load_dataset
from medagent.benchmarks.medagentbench.tasks.manifest import Like
from medagent.core.errors import MedagentError, UserError
from medagent.core.paths import cache_dir
from medagent.fhir_episodes.episodes import SyncEpisode
from medagent.fhir_episodes.protocol import load_protocol
from medagent.fhir_episodes.session import MAX_ROUNDS, Turn
from medagent.fhir_episodes.tools import Toolbox
from medagent.models.base import Tool
from refsol.medagentbench.constants import PUBLISHED

Reward = Literal["official", "checks"]
_TYPES: dict[str, type] = {"string": str, "array": list, "object": dict, "integer": int}
_PATIENTS, _PER_TYPE = 100, 300
"""Of one set, which costs a second or two, most of it for its patients."""
_ENDED = "The episode has ended."


class UngradedError(MedagentError):
    """An episode that could not be graded has no reward; it is never a reward of 0."""


class Environment:
    """One episode at a time over tasks that do not end: set after set is made from the seed, when it is needed.

    `reward` is `official` (1.0 or 0.0), or `checks`: of a wrong episode half the share of the checks that passed.
    """

    tools: ClassVar[Sequence[Tool]] = Toolbox.of(load_protocol("tools"), PUBLISHED.base).tools()
    """The FHIR functions and `finish`; the environment has a method of each one's name."""

    def __init__(
        self,
        split: Literal["train", "dev", "ood"] = "train",
        seed: str = "0",
        *,
        like: Like = "bundled",
        reward: Reward = "official",
        max_rounds: int = MAX_ROUNDS,
    ) -> None:
        self._tasks = TaskStream(split, str(seed), "shift" if split == "ood" else like)
        self._reward = reward
        self._max_rounds = max_rounds
        self._next = 0
        self._open: SyncEpisode | None = None
        self._stack = ExitStack()

    def reset(self, task: int | None = None, **row: Any) -> str:
        """Begin an episode and return its first message.

        `task` is the task's number in the seed's endless order, which the rows of one group share; without it, each
        episode is of the next task. Other columns of a training row are ignored. Raises UserError.
        """
        number = self._next if task is None else task
        self._next = number + 1
        self._stack.close()
        folder, chosen = self._tasks.task(number)
        opened = episode(
            chosen, key=f"{chosen.id}#{number}", dataset=str(folder), protocol="tools", max_rounds=self._max_rounds
        )
        self._open = self._stack.enter_context(opened)
        return self._open.reset()

    def get_reward(self) -> float:
        """What the episode is worth as it stands. Raises UngradedError where it cannot be graded."""
        verdict = self.episode.verdict()
        if verdict.correct is None:
            raise UngradedError(f"{self.episode.task.id}: {verdict.reason}")
        if self._reward == "official" or verdict.correct:
            return float(verdict.correct)
        return 0.5 * sum(check.passed for check in verdict.checks) / len(verdict.checks)

    @property
    def done(self) -> bool:
        """Whether the episode has ended."""
        return self.episode.done

    @property
    def transcript(self) -> list[Turn]:
        """All messages so far."""
        return self.episode.transcript

    @property
    def task(self) -> Task:
        """The task of the episode."""
        task: Task = self.episode.task
        return task

    @property
    def episode(self) -> SyncEpisode:
        """The open episode, for programs that call tools by their names. Raises UserError before the first `reset`."""
        if self._open is None:
            raise UserError("the environment has no episode yet: call reset first")
        return self._open

    def _call(self, tool: str, arguments: dict[str, Any]) -> str:
        if self.episode.done:
            return _ENDED
        given = {name: value for name, value in arguments.items() if value is not None}
        return self.episode.call(tool, given) or _ENDED


@dataclass(frozen=True, slots=True)
class TaskStream:
    """The tasks of a seed, set after set; a set's own seed is `SEED/0`, `SEED/1` and so on."""

    split: Literal["train", "dev", "ood"]
    seed: str
    like: Like

    def task(self, number: int) -> tuple[Path, Task]:
        """A task by its number, and the folder of its set. Raises UserError."""
        if number < 0:
            raise UserError(f"task {number}: tasks are counted from 0")
        size = len(_tasks(self, 0)[1])
        folder, tasks = _tasks(self, number // size)
        return folder, tasks[number % size]


@lru_cache(maxsize=64)
def _tasks(stream: TaskStream, number: int) -> tuple[Path, tuple[Task, ...]]:
    """A set, made into the cache folder where it is not there yet, and its tasks in an order that mixes the types."""
    from medagent.benchmarks.medagentbench.generator.write import GENERATOR, Wanted, make, seed_number
    from medagent.engine.selection import mixed

    seed = f"{stream.seed}/{number}"
    name = f"{seed_number(seed, stream.like, stream.split):064x}"[:32]
    folder = cache_dir() / "training" / f"{stream.split}-{GENERATOR}-{_PATIENTS}-{_PER_TYPE}-{name}"
    if not folder.is_dir():
        aside = folder.with_name(f".{folder.name}.{os.getpid()}")
        try:
            make(aside, Wanted(stream.like, stream.split, seed, _PATIENTS, _PER_TYPE))
            aside.rename(folder)
        except OSError as error:
            if not folder.is_dir():  # else another process has made it meanwhile
                raise UserError(f"{folder}: cannot be written: {error.strerror}") from None
        finally:
            rmtree(aside, ignore_errors=True)
    dataset = load_dataset(str(folder), "v2")
    types = {task.id: task.type for task in dataset.tasks}
    by_id = {task.id: task for task in dataset.tasks}
    return folder, tuple(by_id[one] for one in mixed(list(by_id), types.__getitem__))


def _method(tool: Tool) -> Callable[..., str]:
    """A tool as a method: its signature, and a docstring in Google's form, from which schemas are made."""
    names = {name.replace("-", "_"): name for name in tool.parameters["properties"]}
    required = set(tool.parameters.get("required", ()))

    def method(self: Environment, **arguments: Any) -> str:
        # A parameter that the tool does not have is passed on, as in a run: the server answers to it.
        return self._call(tool.name, {names.get(name, name): value for name, value in arguments.items()})

    parameters, lines = [Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)], []
    # What is required stands first, as Python wants it.
    for name, schema_name in sorted(names.items(), key=lambda pair: pair[1] not in required):
        schema = tool.parameters["properties"][schema_name]
        kind: Any = _TYPES[schema["type"]]
        default = Parameter.empty if schema_name in required else None
        kind = kind if schema_name in required else kind | None
        parameters.append(Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=kind))
        said = " ".join((schema.get("description") or f"The resource's {schema_name}.").split())
        lines.append(f"    {name}: {said}")
    method.__name__ = tool.name
    method.__qualname__ = f"Environment.{tool.name}"
    method.__doc__ = "\n".join([tool.description, "", "Args:", *lines, "", "Returns:", "    What the server answers."])
    method.__annotations__ = {one.name: one.annotation for one in parameters[1:]} | {"return": str}
    vars(method)["__signature__"] = Signature(parameters, return_annotation=str)
    return method


for _tool in Environment.tools:
    setattr(Environment, _tool.name, _method(_tool))
