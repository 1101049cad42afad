"""An agent that owns its loop: `solve` gets an `Env` and returns the answer.

Each tool call, text action and request to `env.http` is a message of the session, so the journal, limits and grader
treat it like the messages of other agents.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from medagent.agents.base import Agent, count_into
from medagent.core.errors import UserError
from medagent.core.options import options
from medagent.engine.boundary import blame
from medagent.engine.rows import Spent
from medagent.engine.settings import RunSettings
from medagent.fhir_episodes.session import Session
from medagent.fhir_episodes.tools import Toolbox, call
from medagent.models.base import Completion, Tool, Usage
from medagent.models.prices import find_price

OWN_LOOP = "agent-loop"
"""The setting in `run.json` that marks a run of such an agent; its value is `own`."""
_OVER = "The episode has ended."


class Env:
    """The interface of one episode for an agent with `solve`.

    `key` names the episode (`task5_7#1`), `seed` is for sampling (None in the first trial). `http` is the episode's own
    FHIR base, for HTTP clients on this machine.
    """

    def __init__(self, session: Session, toolbox: Toolbox, spent: Spent, http: str, key: str, seed: int | None) -> None:
        self.http, self.key, self.seed = http, key, seed
        self._session, self._toolbox, self._spent = session, toolbox, spent
        self._loop, self._lock = asyncio.get_running_loop(), asyncio.Lock()

    @property
    def tools(self) -> list[Tool]:
        """The FHIR functions and `finish`: name, description and JSON schema of each."""
        return self._toolbox.tools()

    async def call(self, tool: str, /, **arguments: Any) -> str:
        """Call a tool; returns the reply, or the reason why the call is refused. `finish` ends the episode."""
        return await self._in_turn(lambda: call(self._session, self._toolbox, tool, arguments))

    def function(self, tool: str) -> Callable[..., Awaitable[str]]:
        """A tool as a function, for frameworks that take functions with named arguments."""

        async def called(**arguments: Any) -> str:
            return await self.call(tool, **arguments)

        return called

    async def act(self, message: str) -> str:
        """Take one text action: `GET url`, `POST url` with JSON below, `FINISH([…])`; returns the reply.

        Raises SessionEndedError after the last message of the episode.
        """
        return await self._in_turn(lambda: self._session.act(message))

    async def _in_turn(self, take: Callable[[], Awaitable[str]]) -> str:
        async with self._lock:  # frameworks make calls in parallel
            if self._session.outcome().status == "completed":
                return _OVER
            return await take() or _OVER

    def call_blocking(self, tool: str, /, **arguments: Any) -> str:
        """`call` for another thread than the event loop's, such as that of `asyncio.to_thread`."""
        return asyncio.run_coroutine_threadsafe(self.call(tool, **arguments), self._loop).result()

    def spend(
        self, *, prompt: int = 0, completion: int = 0, cached: int = 0, cost: float | None = None, model: str = ""
    ) -> None:
        """Count a model call that the agent made itself: tokens, and US dollars (default: by the price table).

        Raises UnitLimitError if the episode has reached a limit.
        """
        usage = Usage(prompt=prompt, completion=completion, cached=cached)
        if cost is None and (price := find_price(model)) is not None:
            cost = price.cost(usage)
        self._spent.add(Completion("", usage, cost=cost, model=model or None))


async def solve(agent: Agent, task: Any, session: Session, env: Env, spent: Spent) -> None:
    """Let an agent solve a task; its answer ends the session, unless the agent has ended it by `finish`.

    Raises PluginError for any error of the agent before the session has ended.
    """
    prompt = session.reset()
    count_into(spent)
    try:
        with blame("agent"):
            answer = _answer(await agent.solve(task, prompt, env))
    except Exception:
        if session.done:
            return  # an error of the framework after the end does not matter
        raise
    if not session.done:
        await session.act(answer)


def _answer(answer: object) -> str:
    """The last message of an episode. Raises TypeError if the answer is neither a list nor a text."""
    if isinstance(answer, str):
        text = answer.strip()
        return text if text.startswith("FINISH(") else f"FINISH({text})"
    if isinstance(answer, list | tuple):
        return f"FINISH({json.dumps(answer, ensure_ascii=False)})"
    raise TypeError(f"solve returned {type(answer).__name__}, expected the answers: a list, or the text of one")


def check_settings(agent: type[Agent], settings: RunSettings) -> None:
    """Raises UserError for options that do not apply, or cannot be enforced, if an agent owns its loop."""
    name = agent.__name__
    if getattr(settings, "protocol", "text") == "code":
        raise UserError(f"--protocol code: {name} has `solve` and acts by tools")
    if getattr(settings, "loop", None):
        raise UserError(f"--loop does not apply: {name} has `solve` and acts by tools")
    limits = ("max_cost", "max_tokens_total", "unit_cost", "unit_tokens")
    limited = [one.written for one in options(type(settings)) if one.name in limits and getattr(settings, one.name)]
    if limited and not agent.reports_use:
        raise UserError(
            f"{limited[0]} cannot be kept: {name} owns its loop, and its token use is unknown. If "
            "`solve` counts every call with env.spend, write `reports_use = True` in the class"
        )
