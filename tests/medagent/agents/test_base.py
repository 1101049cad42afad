"""An agent as a generator: the moves that `Agent.play` makes, and what is said where it makes none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import pytest

from medagent import Agent, AgentContext


class Plain(Agent):
    def play(self, task: Any, prompt: str) -> Iterator[str]:
        reply = yield f"{task}: {prompt}"
        yield f"then {reply}"


class Awaiting(Agent):
    async def play(self, task: Any, prompt: str) -> AsyncIterator[str]:
        await asyncio.sleep(0)
        reply = yield f"{task}: {prompt}"
        yield f"then {reply}"


class Listing(Agent):
    def play(self, task: Any, prompt: str) -> list[str]:
        return [prompt]


def moves(agent: type[Agent], observations: Sequence[str]) -> list[str]:
    """What the agent says to these observations."""

    async def played() -> list[str]:
        policy = agent(AgentContext()).start("task", key="task#1", seed=None)
        return [(await policy.next(observation)).text for observation in observations]

    return asyncio.run(played())


@pytest.mark.parametrize("agent", [Plain, Awaiting])
def test_each_observation_is_the_reply_to_the_message_before(agent: type[Agent]) -> None:
    assert moves(agent, ["p", "r", "s", "t"]) == ["task: p", "then r", "", ""]


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        (Listing, "Listing.play is not a generator; it must `yield` messages"),
        (Agent, "Agent defines neither `play` nor"),
    ],
)
def test_what_makes_no_moves_is_named(agent: type[Agent], words: str) -> None:
    with pytest.raises((TypeError, NotImplementedError), match=words):
        moves(agent, ["p"])
