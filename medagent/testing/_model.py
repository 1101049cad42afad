"""The chat double as an OpenAI-compatible endpoint on a loopback port: replies from a script, with faults.

The n-th reply answers a conversation with n - 1 assistant messages (`medagent.models.scripted`), so that code under
test may repeat a request, and several conversations may run in parallel.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any
from urllib.parse import urlsplit

from medagent.core.closing import Closing
from medagent.core.errors import ModelError
from medagent.models.base import Completion, Message, ToolCall
from medagent.models.scripted import Reply, ScriptedModel
from medagent.testing._faults import Answer, Fault, Faults, spoiled
from medagent.testing._loopback import serving

Step = str | tuple[str, dict[str, Any]]
"""A reply of the model: a text, or a tool's name with the arguments of the call."""
_JSON = [("Content-Type", "application/json")]


class ModelDouble(Faults, Closing):
    """The endpoint; a context manager. `url` is its base URL (`…/v1`), `requests` the received JSON bodies."""

    def __init__(self, replies: Sequence[Step]) -> None:
        super().__init__()
        self.requests: list[dict[str, Any]] = []
        self._model = ScriptedModel([_reply(number, step) for number, step in enumerate(replies, 1)])
        self._stack = ExitStack()
        self.url = self._stack.enter_context(serving(self._answer)) + "/v1"

    def close(self) -> None:
        """Close the port."""
        self._stack.close()

    def _answer(self, method: str, url: str, headers: Iterable[tuple[str, str]], body: bytes) -> Answer:
        path = urlsplit(url).path.removeprefix("/v1/")
        if method != "POST" or path != "chat/completions":
            return _refused(404, f"{method} {path}: this double answers POST chat/completions alone")
        try:
            request = json.loads(body)
            messages = [_message(message) for message in request["messages"]]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            return _refused(400, f"the request cannot be read: {error!r}")
        self.requests.append(request)
        if request.get("stream"):
            return _refused(400, "this double does not stream; ask without stream=true")
        fault = self._take(method, path)
        if fault and fault.kind == "status":
            return _failed(fault)
        return spoiled(self._completion(request, messages), fault)

    def _completion(self, request: dict[str, Any], messages: Sequence[Message]) -> Answer:
        work = self._model.complete(messages)
        try:
            work.send(None)
        except StopIteration as done:
            completion: Completion = done.value
        except ModelError as error:
            return _refused(400, str(error))
        document = _document(completion, request.get("model"), len(self.requests))
        return Answer(200, list(_JSON), json.dumps(document).encode())


def _reply(number: int, step: Step) -> Reply:
    if isinstance(step, str):
        return step
    name, arguments = step
    call = ToolCall(f"call_{number}", name, json.dumps(arguments))
    return Completion("", tool_calls=(call,), finish_reason="tool_calls")


def _message(message: dict[str, Any]) -> Message:
    content = message.get("content") or ""
    return Message(message["role"], content if isinstance(content, str) else json.dumps(content))


def _document(completion: Completion, model: Any, number: int) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": completion.text}
    if completion.tool_calls:
        calls = [asdict(call) for call in completion.tool_calls]
        message["tool_calls"] = [{"id": call.pop("id"), "type": "function", "function": call} for call in calls]
    usage = completion.usage
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": completion.finish_reason}],
        "usage": {
            "prompt_tokens": usage.prompt,
            "completion_tokens": usage.completion,
            "total_tokens": usage.total,
        },
    }


def _failed(fault: Fault) -> Answer:
    answer = _refused(fault.status, f"injected: {fault.status}")
    if fault.retry_after is not None:
        answer.headers.append(("Retry-After", str(fault.retry_after)))
    return answer


def _refused(status: int, message: str) -> Answer:
    return Answer(status, list(_JSON), json.dumps({"error": {"message": message}}).encode())
