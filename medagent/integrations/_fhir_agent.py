"""An agent whose model calls a private FHIR base itself and returns only its answers.

The agent then repeats the model's requests as actions in the run's own session, so transcript, writes and verdict are
those of any run. It needs `writes="execute"`, so that a refused write is refused again, and the lenient loop, which
requests each URL unchanged.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, ClassVar

from medagent.agents.base import Agent
from medagent.fhir_episodes.http_episodes import HttpEpisodes
from medagent.fhir_episodes.session import clean
from medagent.models.base import Message

RUN_OPTIONS: dict[str, Any] = {"writes": "execute", "loop": "lenient", "max_rounds": 1_000_000}
"""The options that a run of this agent needs."""


class FhirAgent(Agent):
    """Subclass it with the `episodes` that open the bases. The run's model gets the base's URL and answers once."""

    episodes: ClassVar[HttpEpisodes]

    async def play(self, task: Any, prompt: str) -> AsyncIterator[str]:
        """See `Agent.play`."""
        assert self.context.model is not None
        with self.episodes.open(task) as episode:
            completion = await self.context.model.complete([Message("user", episode.prompt)], session=episode.base)
            last = clean(completion.text)
            if last.startswith("FINISH("):
                episode.finish(last[len("FINISH(") : -1])
        actions = [turn.content for turn in episode.outcome().transcript if turn.role == "agent"]
        for action in actions if episode.done else [*actions, last]:
            yield action
