"""A chat model that acts by a published strategy, which defines the tools of each call and when an episode ends.

Each tool call is one message to the session, `name(arguments)`. An episode ends with `FINISH(answer)`, where the answer
is the whole last message. Texts that end an episode are the published ones, because evaluators search for them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from medagent.agents.base import Agent, AgentContext, Move, counted, model_move
from medagent.benchmarks.fhiragentbench.strategies.plan import TURNS, Strategy
from medagent.benchmarks.fhiragentbench.strategies.tokens import InputCount
from medagent.engine.rows import Spent
from medagent.models.base import ChatModel, Completion, Message, ToolCall
from medagent.models.calls import excess, recorded_call, within_limits
from refsol.fhiragentbench.answers import OUT_OF_TURNS, OVER_CAP

FINAL = "the final answer is:"
NO_CALL = "No tool calls found in the response"
"""The answer if a reply lacks a required tool call."""


class StrategyAgent(Agent):
    """A model that acts by a strategy. `cap` is the input cap in tokens, or None."""

    def __init__(self, model: ChatModel, strategy: Strategy, system: str, cap: int | None) -> None:
        super().__init__(AgentContext(model))
        self._model = model
        self._strategy = strategy
        self._system = system
        self._cap = cap

    def start(self, task: Any, *, key: str, seed: int | None) -> _StrategyPolicy:
        return _StrategyPolicy(self._model, self._strategy, self._system, self._cap, key, seed)


class _StrategyPolicy:
    def __init__(
        self, model: ChatModel, strategy: Strategy, system: str, cap: int | None, key: str, seed: int | None
    ) -> None:
        self._model = model
        self._strategy = strategy
        self._cap = cap
        self._key = key
        self._seed = seed
        self._messages = [Message("system", system)] if system else []
        self._input = InputCount()
        self._waiting: deque[ToolCall] = deque()
        self._open: ToolCall | None = None
        self._turn = -1
        self._reasoning: str | None = None
        self.spent = Spent()

    async def next(self, observation: str) -> Move:
        if self._open is None:
            self._messages.append(Message("user", observation))
        else:
            self._messages.append(Message("tool", observation, tool_call_id=self._open.id))
        while not self._waiting:
            end = await self._call()
            if end is not None:
                return end
        called = self._waiting.popleft()
        self._open = call = within_limits(called)
        if sentence := self._strategy.unknown(self._turn, call.name):
            return self._end(sentence)
        call_record = recorded_call(called, len(self.spent.each) - 1)
        return Move(call_record.written, self._reasoning, excess(call_record), call=call_record)

    async def _call(self) -> Move | None:
        """Call the model. Returns the last move of the episode, or None if the episode continues."""
        self._turn += 1
        strategy = self._strategy
        if strategy.many_turns and self._turn >= TURNS:
            return self._end(f"{OUT_OF_TURNS}.")
        offered = strategy.offered(self._turn)
        if self._cap is not None:
            size = await asyncio.to_thread(self._input.of, self._messages)
            if size > self._cap:
                last = not strategy.many_turns and not offered
                return self._end(f"{'' if last else 'Error: '}{OVER_CAP}: {size} > {self._cap}")
        completion = await counted(
            self._model, self.spent, self._messages, tools=offered, seed=self._seed, session=self._key
        )
        self._messages.append(completion.message)
        self._reasoning = completion.reasoning
        return self._after(completion, has_tools=bool(offered))

    def _after(self, completion: Completion, *, has_tools: bool) -> Move | None:
        """Handle a reply: queue its tool calls, or return the last move. None means to call the model again."""
        move = model_move(completion)
        if move.characters is not None:
            return move
        if completion.tool_calls and has_tools:
            self._waiting.extend(completion.tool_calls)
            return None
        if self._strategy.many_turns:
            is_final = FINAL in completion.text.lower()
            return self._end(completion.text, completion) if is_final else None
        return self._end(NO_CALL) if has_tools else self._end(completion.text, completion)

    def _end(self, answer: str, completion: Completion | None = None) -> Move:
        finish_reason = completion.finish_reason if completion else None
        return Move(f"FINISH({answer})", completion.reasoning if completion else None, finish_reason=finish_reason)
