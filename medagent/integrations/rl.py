"""A FHIR benchmark as a training environment: `reset`, one method for each tool, `get_reward`. Synchronous.

    environment = Environment(split="train", seed="1")
    prompt = environment.reset(task=17)
    reply = environment.get_patient(family="Nagy")
    environment.finish(answers=["S9214313"])
    reward = environment.get_reward()

TRL's `GRPOTrainer(environment_factory=Environment)` accepts it unchanged: TRL uses every public method except `reset`
and `get_reward` as a tool. The methods are made from the function list that a run offers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import cache
from inspect import Parameter, Signature
from typing import Any, ClassVar, Literal, Self, SupportsIndex, TypeVar, get_args

from medagent.benchmarks.base import DEFAULT, find_fhir
from medagent.benchmarks.clinical.injected import share_of
from medagent.core.errors import MedagentError, UserError
from medagent.core.suggest import check_option
from medagent.engine.pairs import is_right_and_read
from medagent.engine.scores import Score
from medagent.fhir_episodes.benchmark import Training
from medagent.fhir_episodes.episodes import EpisodeSource, SyncEpisode, open_episode
from medagent.fhir_episodes.fhir_base import API_BASE
from medagent.fhir_episodes.protocol import load_protocol
from medagent.fhir_episodes.session import MAX_ROUNDS, Turn
from medagent.fhir_episodes.tools import Toolbox
from medagent.models.base import Tool

E = TypeVar("E", bound="Environment")
Split = Literal["train", "dev", "ood"]
Reward = Literal["official", "checks"]
_TYPES: dict[str, type] = {"string": str, "array": list, "object": dict, "integer": int}
_ENDED = "The episode has ended."


class UngradedError(MedagentError):
    """The episode could not be graded, so it has no reward. Do not count it as a reward of 0."""


def pair_reward(*twins: Score) -> float:
    """The reward of the twins of a pair or a triple (see `Episode.pair`): 1.0 if all are right and the agent had read
    the deciding data of each, otherwise 0.0. Train on triples: in a pair, a fixed order of replies earns a half. Raises
    UngradedError if one of them was not graded.
    """
    verdicts = [is_right_and_read(twin) for twin in twins]
    if None in verdicts:
        raise UngradedError("a twin was not graded, or it is unknown what its agent had read")
    return float(all(verdicts))


class Environment:
    """One episode at a time over an endless series of tasks: sets of tasks are generated from the seed when needed.

    `reward` is `official` (1.0 or 0.0) or `checks`, which gives a wrong episode half the share of its checks that
    passed. With `injected="20%"`, this share of the tasks has an instruction in the chart, and `harmed` says whether
    the agent did what it asks for.
    """

    tools: ClassVar[Sequence[Tool]] = Toolbox.of(load_protocol("tools"), API_BASE).tools()
    """The FHIR functions and `finish`, or the benchmark's own tools. Each is a method with the tool's name."""

    def __new__(cls, *_: Any, benchmark: str = DEFAULT, **__: Any) -> Self:
        """An environment with the tools of the benchmark. Raises UserError."""
        kind: Any = cls
        environment: Self = object.__new__(_offering(kind, benchmark))
        return environment

    def __init__(
        self,
        split: Split = "train",
        seed: str = "0",
        *,
        benchmark: str = DEFAULT,
        like: str = "",
        injected: str = "",
        reward: Reward = "official",
        max_rounds: int = MAX_ROUNDS,
    ) -> None:
        check_option("split", split, get_args(Split))
        check_option("reward", reward, get_args(Reward))
        self._source = Training(split, str(seed), like, share_of(injected) if injected else 0.0)
        self._benchmark = find_fhir(benchmark)
        self._reward = reward
        self._max_rounds = max_rounds
        self._next = 0
        self._open: SyncEpisode | None = None
        self._stack = ExitStack()

    def reset(self, task: int | None = None, **row: Any) -> str:
        """Begin an episode and return its first message.

        `task` is the task's number in the seed's endless series; the rows of one group share it. Without it, each
        episode takes the next task. Other columns of a training row are ignored. Raises UserError.
        """
        # A row's column may be one of numpy's integers.
        if task is not None and (isinstance(task, bool) or not isinstance(task, SupportsIndex)):
            raise UserError(f"reset(task={task!r}): `task` must be an integer, such as reset(task=3)")
        number = self._next if task is None else int(task)
        self._next = number + 1
        self._stack.close()
        options, item = self._benchmark.training_item(self._source, number)
        source = EpisodeSource.of(self._benchmark, {**options, "protocol": "tools", "max_rounds": self._max_rounds})
        self._open = self._stack.enter_context(open_episode(source, item, f"{item.id}#{number}"))
        return self._open.reset()

    def get_reward(self) -> float:
        """The reward for the episode so far. Raises UngradedError if it cannot be graded."""
        verdict = self.episode.verdict()
        if verdict.value is None:
            raise UngradedError(f"{self.episode.task.id}: {verdict.reason}")
        if self._reward == "official" or verdict.correct or not verdict.checks:
            return verdict.value
        return 0.5 * sum(check.passed for check in verdict.checks) / len(verdict.checks)

    @property
    def harmed(self) -> bool | None:
        """Whether the agent did what an instruction in the chart asks for. None if the task has none."""
        return self.episode.verdict().harmed

    @property
    def done(self) -> bool:
        """Whether the episode has ended."""
        return self.episode.done

    @property
    def transcript(self) -> list[Turn]:
        """All messages so far."""
        return self.episode.transcript

    @property
    def task(self) -> Any:
        """The task of the episode."""
        return self.episode.task

    @property
    def episode(self) -> SyncEpisode:
        """The open episode, for programs that call tools by name. Raises UserError before the first `reset`."""
        if self._open is None:
            raise UserError("no episode was started yet: call reset first")
        return self._open

    def _call(self, tool: str, arguments: dict[str, Any]) -> str:
        if self.episode.done:
            return _ENDED
        set_arguments = {name: value for name, value in arguments.items() if value is not None}
        return self.episode.call(tool, set_arguments) or _ENDED


@cache
def _offering(kind: type[Any], benchmark: str) -> type[Any]:
    """The class of environments with the tools of a benchmark, and no other tools."""
    fhir = find_fhir(benchmark)
    tools = fhir.toolbox(fhir.Settings()).tools()
    if tools == kind.tools:
        return kind
    others = {tool.name: None for tool in kind.tools}
    methods = {tool.name: _method(tool) for tool in tools}
    return type(kind.__name__, (kind,), {"tools": tools, **others, **methods, "__doc__": kind.__doc__})


def _method(tool: Tool) -> Callable[..., str]:
    """A tool as a method, with a signature and a Google-style docstring; trainers make schemas from both."""
    names = {name.replace("-", "_"): name for name in tool.parameters["properties"]}
    required = set(tool.parameters.get("required", ()))

    def method(self: Environment, **arguments: Any) -> str:
        # Unknown parameters are passed on, as in a run: the server rejects them.
        return self._call(tool.name, {names.get(name, name): value for name, value in arguments.items()})

    parameters, lines = [Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)], []
    # Required parameters come first, since Python demands it.
    for name, schema_name in sorted(names.items(), key=lambda pair: pair[1] not in required):
        schema = tool.parameters["properties"][schema_name]
        kind: Any = _TYPES[schema["type"]]
        default = Parameter.empty if schema_name in required else None
        kind = kind if schema_name in required else kind | None
        parameters.append(Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=kind))
        description = " ".join((schema.get("description") or f"The resource's {schema_name}.").split())
        lines.append(f"    {name}: {description}")
    method.__name__ = tool.name
    method.__qualname__ = f"Environment.{tool.name}"
    method.__doc__ = "\n".join([tool.description, "", "Args:", *lines, "", "Returns:", "    What the server answers."])
    method.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters[1:]} | {"return": str}
    vars(method)["__signature__"] = Signature(parameters, return_annotation=str)
    return method


for _tool in Environment.tools:
    setattr(Environment, _tool.name, _method(_tool))
