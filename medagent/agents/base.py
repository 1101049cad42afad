"""Each process creates an `Agent` once. For each episode, it starts a `Policy`, which turns observations into messages.

The shortest agent is a generator: `play(task, prompt)` yields a message and gets the reply to it. The benchmark defines
the meaning of messages: MedAgentBench accepts `GET …`, `POST …` and `FINISH(…)`; a benchmark of single questions takes
the first message as the answer. A chat model is an agent too: it acts by the text of its messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator, Sequence
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass
from functools import partial
from inspect import isasyncgenfunction, iscoroutinefunction
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from medagent.agents.skills import Skill
from medagent.core.errors import UserError
from medagent.engine.boundary import PluginError, beside, blame, current_lane
from medagent.engine.rows import Spent
from medagent.models.base import ChatModel, Message, RecordedCall
from medagent.models.calls import within_limits
from medagent.models.estimate import CallCutOffError
from refsol.json_values import unicode_text

if TYPE_CHECKING:
    from medagent.engine.learning import Feedback
    from medagent.models.base import ChatModel, Completion, Message, Tool

LONGEST_MESSAGE = 4_000_000
"""The maximum length of a message in characters; the body of a POST may be half as long."""
STORED_OF_LONGER = 10_000
"""The characters that are stored of a model's message that is longer."""


@dataclass(frozen=True, slots=True)
class Move:
    """An agent's next message. `problem` is set if it is a call that cannot be read as an action, with the reason.

    `reasoning` is what the model's endpoint returned separately. It is stored in the transcript and not acted on.
    """

    text: str
    reasoning: str | None = None
    problem: str | None = None
    finish_reason: str | None = None
    call: RecordedCall | None = None
    """The tool call that the text was made from."""
    ended: bool = False
    """Whether the agent's program has ended, so that `text` is not one of its messages."""
    characters: int | None = None
    """The length of a model's message that is over the limit. `text` is its beginning, and it ends the episode."""
    recorded: bool | None = None
    """Of an answer from a file: the verdict on it that the file contains."""

    def __post_init__(self) -> None:
        """Check the types, because other types would fail later in the journal. Raises PluginError."""
        for name in ("text", "reasoning", "problem", "finish_reason"):
            value = getattr(self, name)
            if isinstance(value, str):  # a subclass of str may have overridden methods
                object.__setattr__(self, name, unicode_text(str.__str__(value)))
            elif name == "text":
                raise _misfit(f"yielded {type(value).__name__}, expected str")
            elif value is not None:
                raise _misfit(f"Move.{name} is {type(value).__name__}, expected str or None")
        if len(self.text) > LONGEST_MESSAGE:
            raise _misfit(f"yielded {len(self.text):,} characters; the limit is {LONGEST_MESSAGE:,}")
        if self.call is not None and not isinstance(self.call, RecordedCall):
            raise _misfit(f"Move.call is {type(self.call).__name__}, expected RecordedCall or None")


def model_move(completion: Completion) -> Move:
    """The text of a model's reply as a move. One that is too long, with the arguments of its calls, is cut and invalid:
    it is the model's mistake, not an error of a program.
    """
    calls = map(within_limits, completion.tool_calls)
    length = len(completion.text) + sum(len(f"{call.name}()") + len(call.arguments) for call in calls)
    if length <= LONGEST_MESSAGE:
        return Move(completion.text, completion.reasoning, finish_reason=completion.finish_reason)
    return Move(
        completion.text[:STORED_OF_LONGER],
        completion.reasoning,
        finish_reason=completion.finish_reason,
        characters=length,
    )


def excess_text(characters: int) -> str:
    """Why a model's message of this length is invalid."""
    return f"the model's message has {characters:,} characters; the limit is {LONGEST_MESSAGE:,}"


def _misfit(text: str) -> PluginError:
    return PluginError("agent", TypeError(text), text)


class Policy(Protocol):
    """The decisions of one episode."""

    spent: Spent
    """The cost of this episode's model calls."""

    async def next(self, observation: str) -> Move:
        """The next message after `observation`: first the prompt, then the reply to each message.

        Raises EpisodeError or StopRunError from the model. Any other error is a failure of the agent.
        """


async def next_move(policy: Policy, observation: str) -> Move:
    """The next move of any policy. Raises PluginError, a failure of the agent, for any error in it."""
    with blame("agent"):
        move: object = await policy.next(observation)
        if not isinstance(move, Move):
            raise TypeError(f"{type(policy).__name__}.next returned {type(move).__name__}, expected Move")
        return move


@dataclass(frozen=True, slots=True)
class AgentContext:
    """What an agent may use: the run's model (None: there is none), the FHIR base URL that it is shown, and in a
    sequential run its own folder (otherwise None). The folder exists from the first `play` on, so read the attribute
    there. It is empty at the start of each trial, and restored when a run is resumed. `skills` are those of `--skill`.
    """

    model: ChatModel | None = None
    base: str = ""
    folder: Path | None = None
    skills: tuple[Skill, ...] = ()


_spent: ContextVar[Spent | None] = ContextVar("medagent_spent", default=None)
"""The counter for model calls of the current episode."""


def count_into(spent: Spent) -> None:
    """Count all further calls of a `CountedModel` in this task."""
    _spent.set(spent)


async def counted(
    model: ChatModel,
    spent: Spent,
    messages: Sequence[Message],
    *,
    tools: Sequence[Tool] = (),
    seed: int | None = None,
    session: str = "",
) -> Completion:
    """A completion whose cost is added to `spent`. For a cut-off call, the estimated cost is added.

    Raises the errors of `ChatModel.complete`, and UnitLimitError.
    """
    with blame("model"):
        try:
            completion = await model.complete(messages, tools=tools, seed=seed, session=session)
        except CallCutOffError as cut_off:
            spent.add_unchecked(cut_off.paid)
            raise asyncio.CancelledError from None  # exactly this type: timeouts check for it
    spent.add(completion)
    return completion


class CountedModel:
    """The model that agents get. What `Agent.play` spends on it counts for the episode."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model
        self.name = model.name
        self.stats = model.stats
        self.aclose = model.aclose

    async def complete(
        self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), seed: int | None = None, session: str = ""
    ) -> Completion:
        spent = _spent.get()
        return await counted(self._model, spent or Spent(), messages, tools=tools, seed=seed, session=session)


class Agent:
    """The base class of agents. Override one of `play`, `solve` and `start`. `context` contains what the agent may use.

    A run creates an agent with the context and then its arguments by name, or sets the context of an instance.

    An agent may define `learn(self, task, row, score)`, plain or `async`. A sequential run calls it after each unit:
    `task` is the argument of `play`, `row` the unit's row, `score` a `Feedback`.
    """

    reports_use: ClassVar[bool] = False
    """Whether `solve` reports each model call with `env.spend`. Only then, limits of cost and tokens are enforced."""

    def __init__(self, context: AgentContext | None = None) -> None:
        self.context = context or AgentContext()

    def play(self, task: Any, prompt: str) -> Iterator[str] | AsyncIterator[str]:
        """Yield messages; `yield` returns the reply. A plain or async generator, created when the prompt is known.

        The annotated type is an iterator, so that an override may use `Iterator[str]`. `yield` still returns the reply.
        """
        raise NotImplementedError(f"{type(self).__name__} defines neither `play` nor `start`")

    async def solve(self, task: Any, prompt: str, env: Any) -> Any:
        """Solve a task in the agent's own loop with the tools of `env`. Returns the answers, a list or a text.

        For FHIR sessions. `env` is a `medagent.Env`.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define `solve`")

    def start(self, task: Any, *, key: str, seed: int | None) -> Policy:
        """A new policy. `key` is the episode's name. `seed` is for sampling; None in the first trial.

        Raises UserError if the agent runs its own loop.
        """
        if owns_loop(type(self)):
            raise UserError(
                f"{type(self).__name__} defines `solve`, which needs a benchmark's FHIR session; write `play`"
            )
        return _Played(self, task)


def learning(agent: object) -> Any:
    """The method `learn` of an agent or its class; None if there is none."""
    return getattr(agent, "learn", None)


async def learn_from(agent: Agent, task: Any, row: Any, feedback: Feedback, spent: Spent) -> None:
    """Call an agent's `learn`; a plain one may block. Its model costs are added to `spent`.

    Raises PluginError, a failure of the agent, for any error in it, and the model's errors.
    """
    _spent.set(spent)
    learn: Any = learning(agent)
    with blame("agent"):
        if iscoroutinefunction(learn):
            await learn(task, row, feedback)
        else:
            await asyncio.to_thread(learn, task, row, feedback)


def owns_loop(agent: type[Agent]) -> bool:
    """Whether an agent's class overrides `solve`."""
    return agent.solve is not Agent.solve


class _Played:
    """The generator of `Agent.play` as a policy. A plain generator may block, so it runs in a thread."""

    def __init__(self, agent: Agent, task: Any) -> None:
        self._agent = agent
        self._task = task
        self._generator: Generator[str, str, None] | AsyncGenerator[str, str] | None = None
        self._context: Context | None = None
        self._ended = False
        self.spent = Spent()

    async def next(self, observation: str) -> Move:
        count_into(self.spent)
        first = self._context is None
        if self._context is None:
            self._context = copy_context()
            if (lane := current_lane.get()) is not None:
                lane.closing.append(self._close)
        message: str | None = None
        if first and isasyncgenfunction(self._agent.play):
            self._begin(observation)
        elif not isinstance(self._generator, AsyncGenerator):
            message = await beside(partial(self._context.run, self._step, observation))
        if isinstance(self._generator, AsyncGenerator):
            try:
                message = await (anext(self._generator) if first else self._generator.asend(observation))
            except StopAsyncIteration:
                message = self._end()
        return Move(message, ended=self._ended)  # type: ignore[arg-type]  # it checks what was yielded

    def _begin(self, prompt: str) -> Generator[str, str, None] | AsyncGenerator[str, str]:
        begun = self._agent.play(self._task, prompt)
        if not isinstance(begun, Generator | AsyncGenerator):
            raise TypeError(f"{type(self._agent).__name__}.play is not a generator; it must `yield` messages")
        self._generator = begun
        return begun

    def _step(self, observation: str) -> str | None:
        """The next message of a plain generator, "" at its end. None if `play` is async, which the loop runs."""
        try:
            if isinstance(self._generator, Generator):
                return self._generator.send(observation)
            begun = self._begin(observation)
            return next(begun) if isinstance(begun, Generator) else None
        except StopIteration:
            return self._end()

    def _end(self) -> str:
        """The placeholder for a message after the program's end. The benchmark decides what it means."""
        self._ended = True
        return ""

    async def _close(self) -> None:
        if isinstance(self._generator, AsyncGenerator):
            await self._generator.aclose()
        elif self._generator is not None and self._context is not None:
            await beside(partial(self._context.run, self._generator.close))


class ChatAgent(Agent):
    """Sends the whole conversation and uses the reply's text as the message. `system` is the first message."""

    def __init__(self, model: ChatModel, system: str = "") -> None:
        super().__init__(AgentContext(model))
        self.model = model
        self._opening = (Message("system", system),) if system else ()

    def start(self, task: Any, *, key: str, seed: int | None, before: Sequence[Message] = ()) -> _ChatPolicy:
        """See `Agent.start`. `before` are messages before the conversation, such as examples."""
        return _ChatPolicy(self.model, key, seed, [*self._opening, *before])


class _ChatPolicy:
    def __init__(self, model: ChatModel, key: str, seed: int | None, messages: list[Message]) -> None:
        self._model = model
        self._key = key
        self._seed = seed
        self._messages = messages
        self.spent = Spent()

    async def next(self, observation: str) -> Move:
        self._messages.append(Message("user", observation))
        completion = await counted(self._model, self.spent, self._messages, seed=self._seed, session=self._key)
        self._messages.append(completion.message)
        return model_move(completion)


def begin(agent: Agent, task: Any, *, key: str, seed: int | None, before: Sequence[Message] = ()) -> Policy:
    """A policy of an agent. Only a model gets `before`, see `ChatAgent.start`."""
    if isinstance(agent, ChatAgent):
        return agent.start(task, key=key, seed=seed, before=before)
    return agent.start(task, key=key, seed=seed)
