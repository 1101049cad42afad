"""A chat model that acts by the text of its messages, as the published runner has it."""

from __future__ import annotations

from medagent.agents.base import Move
from medagent.models.base import ChatModel, Message
from medagent.run.rows import Spent
from medagent.tasks.dataset import Task


class TextAgent:
    """Sends the whole conversation and takes the reply's text as the action."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model

    def start(self, task: Task, *, key: str, seed: int | None) -> _TextPolicy:
        """See `Agent.start`."""
        return _TextPolicy(self._model, key, seed)


class _TextPolicy:
    def __init__(self, model: ChatModel, key: str, seed: int | None) -> None:
        self._model, self._key, self._seed = model, key, seed
        self._messages: list[Message] = []
        self.spent = Spent()

    async def next(self, observation: str) -> Move:
        self._messages.append(Message("user", observation))
        completion = await self._model.complete(self._messages, seed=self._seed, session=self._key)
        self.spent.add(completion)
        self._messages.append(completion.message)
        return Move(completion.text, completion.reasoning)
