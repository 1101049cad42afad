"""One message, one reply: units of the engine for benchmarks of single questions, and for judges."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, TypeVar

from medagent.agents.base import Agent, Move, begin, excess_text, learn_from, learning, next_move
from medagent.agents.choice import AgentChoice
from medagent.agents.unusable import kind_of
from medagent.core.errors import ContextLimitError, ModelError
from medagent.core.options import Setting
from medagent.engine.benchmark import Benchmark
from medagent.engine.boundary import blame
from medagent.engine.learning import Feedback
from medagent.engine.plan import Plan, Stage
from medagent.engine.report import DataRef
from medagent.engine.rows import Row, Spent
from medagent.engine.settings import RunSettings, selected
from medagent.models.base import Message
from medagent.models.limiter import EndpointStats
from medagent.models.scripted import check_script
from medagent.models.wording import strip_thinking


@dataclass(frozen=True, slots=True)
class Call:
    """A message to the model that the job knows as `model`. `item` is what the message is about, for agents that use
    it. `before` are messages before it in a model's conversation.
    """

    key: str
    message: str
    model: str = ""
    trial: int = 1
    item: Any = None
    before: tuple[Message, ...] = ()


class CallRow(Row):
    """A row of a call. Subclasses define what is stored of the reply, and whether a message that is too long for the
    model is final, or owed like any other failed call.
    """

    too_long_is_final: ClassVar[bool] = True

    def take(self, move: Move) -> None:
        """Store the reply."""
        raise NotImplementedError(f"{type(self).__name__} does not define `take`")


class ReplyRow(CallRow):
    """The unchanged reply: its text, what the endpoint returned separately, and why it ended."""

    reply: str | None = None
    reasoning: str | None = None
    finish_reason: str | None = None

    def take(self, move: Move) -> None:
        self.reply = move.text
        self.reasoning = move.reasoning
        self.finish_reason = move.finish_reason


R = TypeVar("R", bound=CallRow)


@dataclass(frozen=True, slots=True)
class CallJob(Generic[R]):
    """The models or agents to call, by the name in calls, and the row type."""

    who: Mapping[str, AgentChoice]
    concurrency: int
    row: type[R]
    strip_thinking: bool = False
    """Whether to remove a leading `<think>` block before the row stores the reply."""
    tell_unusable: bool = False
    """Whether a reply that is empty, cut off or only thinking gets this as its status."""

    @property
    def learns(self) -> bool:
        """Whether the agent learns from scores."""
        return any(who.learns for who in self.who.values())

    @asynccontextmanager
    async def open(self) -> AsyncIterator[CallWorker[R]]:
        async with AsyncExitStack() as stack:
            worker: CallWorker[R] = CallWorker(self.strip_thinking, self.tell_unusable)
            for name, choice in self.who.items():
                agent, stats = await stack.enter_async_context(choice.open(self.concurrency))
                worker.agents[name] = agent
                worker.stats.extend(stats)
            yield worker


@dataclass(frozen=True, slots=True)
class CallWorker(Generic[R]):
    """Makes calls; see `Worker`."""

    strip_thinking: bool = False
    tell_unusable: bool = False
    agents: dict[str, Agent] = field(default_factory=dict)
    stats: list[EndpointStats] = field(default_factory=list)

    async def run(self, unit: Call, row: R) -> None:
        """Run one call. Without a reply, the row contains none, and the engine records why."""
        with blame("agent"):
            seed = None if unit.trial == 1 else unit.trial
            policy = begin(self.agents[unit.model], unit.item, key=unit.key, seed=seed, before=unit.before)
            row.spent = policy.spent
            try:
                move = await next_move(policy, unit.message)
            except ContextLimitError as error:
                if row.too_long_is_final:
                    raise
                raise ModelError(str(error), retries=error.retries, waited=error.waited) from None
            if self.strip_thinking:
                move = replace(move, text=strip_thinking(move.text))
            row.take(move)
            row.recorded = move.recorded
            if move.characters is not None:
                row.status, row.error = "invalid_action", excess_text(move.characters)
            elif self.tell_unusable:
                row.status = kind_of(move) or row.status

    async def learn(self, unit: Call, row: R, feedback: Feedback, spent: Spent) -> None:
        agent = self.agents[unit.model]
        if learning(agent) is not None:
            await learn_from(agent, unit.item, row, feedback, spent)


def trial_keys(keys: Sequence[str], trials: int) -> list[tuple[str, int]]:
    """A key for each item in each trial: the item's key in the first, `key#2` in the second."""
    return [(key if trial == 1 else f"{key}#{trial}", trial) for trial in range(1, trials + 1) for key in keys]


def single_turn(
    benchmark: Benchmark[Any, Any],
    settings: RunSettings,
    *,
    data: DataRef | None = None,
    decides: Mapping[str, Setting] | None = None,
) -> Plan:
    """The plan of a benchmark of single questions: one message per item, which is its `question`.

    An agent gets the item, without its `target`, as its task. `decides` are further settings that decide the rows.
    Raises UserError if the model or agent is missing, or no item is selected.
    """
    who = AgentChoice.of(settings)
    items = {item.id: item for item in benchmark.read_items(settings)}
    check_script(settings.model or "", items)
    groups = {item.id: item.group for item in items.values()}
    chosen = selected(list(items), settings, groups.__getitem__)
    calls = [
        Call(key, items[item].question, trial=trial, item=replace(items[item], target=""))
        for item, (key, trial) in zip(chosen * settings.trials, trial_keys(chosen, settings.trials), strict=True)
    ]
    data = data or benchmark.data(settings)
    job = CallJob({"": who}, settings.concurrency, benchmark.row, settings.strip_thinking)
    return Plan(
        settings=settings,
        folder=settings.run_folder(benchmark.name, who.label),
        data=data,
        stages=(Stage(job, lambda: calls),),
        items=list(items.values()),
        decides={**settings.decides(), **who.digests(), "data-digest": data.digest, **(decides or {})},
        command=benchmark.command,
    )
