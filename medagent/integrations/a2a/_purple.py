"""The purple agent: a chat model with one conversation per A2A context."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from a2a.helpers import new_text_message
from a2a.server.agent_execution import AgentExecutor

from medagent.models.base import ChatModel, Message

REMEMBERED = 10_000
"""How many conversations are kept; the least recently used are dropped first."""


class Purple(AgentExecutor):  # type: ignore[misc]  # the a2a package may be missing where types are checked
    """Answers each message with the model's reply to the conversation so far."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model
        self._conversations: OrderedDict[str, list[Message]] = OrderedDict()

    async def execute(self, context: Any, event_queue: Any) -> None:
        """See `AgentExecutor.execute`."""
        messages = self._conversations.setdefault(context.context_id, [])
        self._conversations.move_to_end(context.context_id)
        if len(self._conversations) > REMEMBERED:
            self._conversations.popitem(last=False)
        messages.append(Message("user", context.get_user_input()))
        completion = await self._model.complete(messages, session=context.context_id)
        messages.append(completion.message)
        await event_queue.enqueue_event(new_text_message(completion.text, context_id=context.context_id))

    async def cancel(self, context: Any, event_queue: Any) -> None:
        """See `AgentExecutor.cancel`. An answer is one message, so there is nothing to cancel."""
