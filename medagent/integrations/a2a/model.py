"""An A2A agent as a chat model: `medagent run --model medagent.integrations.a2a.model:A2AModel --base-url URL`.

The agent remembers the conversation, so only its last message is sent; each episode uses its own A2A context. The agent
may answer with a message or with a task. If a task asks for input, the next message continues it; if a task is
completed, its artifacts are the answer.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx
from a2a.client.card_resolver import A2ACardResolver
from a2a.client.client import ClientConfig
from a2a.client.client_factory import ClientFactory
from a2a.client.errors import A2AClientError
from a2a.helpers import get_artifact_text, get_message_text, new_text_message
from a2a.types.a2a_pb2 import Role, SendMessageRequest, TaskState
from a2a.utils.errors import A2AError

from fhir_server.access import is_loopback
from medagent.core.errors import ModelError, StopRunError, UserError
from medagent.core.scrub import error_text
from medagent.models.base import Completion, Message, Model, Tool, Usage
from medagent.models.client import ForeignHostError, GuardedClient, TooLongError
from medagent.models.settings import ModelSettings

_FAILED = (TaskState.TASK_STATE_FAILED, TaskState.TASK_STATE_REJECTED, TaskState.TASK_STATE_CANCELED)
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}
"""Names of this machine, which are one host: a card may use another one than the base URL."""


@dataclass(slots=True)
class _Conversation:
    """An episode's conversation with the agent: its context, and the task that awaits the next message."""

    context: str
    task: str | None = None


class A2AModel(Model):
    """The agent at the run's base URL."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__(settings)
        if len(settings.base_urls) != 1:
            raise UserError("an A2A agent needs its address: --base-url http://host:port")
        self._url = settings.base_urls[0]
        hosts = {urlsplit(self._url).hostname or "", *settings.allow_hosts}
        if any(map(is_loopback, hosts)):
            hosts |= _LOOPBACK
        self._http = GuardedClient(hosts, settings.timeout_s, settings.max_reply_bytes)
        self._client: Any = None
        self._opening = asyncio.Lock()
        self._conversations: dict[str, _Conversation] = {}

    async def complete(
        self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), seed: int | None = None, session: str = ""
    ) -> Completion:
        """See `ChatModel.complete`. Raises ModelError if the agent cannot be reached or reports a failure."""
        if not any(message.role == "assistant" for message in messages):
            self._conversations[session] = _Conversation(str(uuid.uuid4()))
        try:
            async with asyncio.timeout(self.settings.timeout_s):
                text = await self._send(self._conversations[session], messages[-1].content)
        except ForeignHostError as error:
            raise StopRunError(error_text(f"{self._url}: the agent leads to another host: {error}")) from None
        except (httpx.HTTPError, TooLongError, A2AClientError, A2AError, ValueError) as error:
            raise ModelError(f"{self._url}: {type(error).__name__}: {error}") from None
        except TimeoutError:
            raise ModelError(
                f"{self._url}: no answer after {self.settings.timeout_s:g} s; --timeout sets a longer time"
            ) from None
        return Completion(text, usage=Usage(known=False), model=self.name.removeprefix("a2a:"))

    async def _send(self, conversation: _Conversation, text: str) -> str:
        client = await self._opened()
        message = new_text_message(
            text, role=Role.ROLE_USER, context_id=conversation.context, task_id=conversation.task
        )
        answer, artifacts = "", []
        async for event in client.send_message(SendMessageRequest(message=message)):
            if event.HasField("message"):
                conversation.task = None
                return str(get_message_text(event.message))
            if event.HasField("artifact_update"):
                artifacts.append(get_artifact_text(event.artifact_update.artifact))
                continue
            status = event.task.status if event.HasField("task") else event.status_update.status
            if event.HasField("task"):
                conversation.task = event.task.id
                artifacts += map(get_artifact_text, event.task.artifacts)
            status_text = get_message_text(status.message) if status.HasField("message") else ""
            if status.state in _FAILED:
                raise ModelError(f"{self._url}: the agent's task failed: {status_text or 'it gave no reason'}")
            if status.state == TaskState.TASK_STATE_COMPLETED:
                conversation.task = None
            answer = status_text or answer
        return "\n".join(artifacts) or answer

    async def _opened(self) -> Any:
        """The client, made from the agent's card."""
        async with self._opening:
            if self._client is None:
                card = await A2ACardResolver(self._http, self._url).get_agent_card()
                factory = ClientFactory(ClientConfig(streaming=False, httpx_client=self._http))
                self._client = factory.create(card)
                self.name = f"a2a:{card.name}"
        return self._client

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()
