"""The batch APIs of providers: how a batch is created, found, and read line by line; and the requests to them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import Any, BinaryIO

import openai

from medagent.core.errors import MedagentError
from medagent.core.scrub import error_text
from medagent.models.client import NoReplyError, Replica, TooLongError, connection_errors
from medagent.models.endpoint import unanswered
from medagent.models.failures import response_meaning
from medagent.models.limiter import AdaptiveLimiter
from medagent.models.retry import EndpointFailure, Retries, RetryPolicy, call_with_retries
from refsol.json_values import as_object, objects

Bodies = Mapping[str, dict[str, Any]]
"""Request bodies by request name."""
MOST_RESULT_BYTES = 4_000_000_000
"""The maximum size of one batch's results in bytes. They are stored on disk and read line by line."""
_ENDPOINT = "/v1/chat/completions"
_PAGE = 100


class NotThereError(Exception):
    """The API answered 404."""


class BatchLostError(MedagentError):
    """A batch that will never return results. The text gives the reason."""


class Sender:
    """Sends requests of `replica.client` to a batch API. `await send(…)` retries failures like every model request."""

    def __init__(self, replica: Replica, limiter: AdaptiveLimiter, policy: RetryPolicy) -> None:
        self.client = replica.client
        self.policy = policy
        self._replica = replica
        self._limiter = limiter

    async def __call__(self, request: Callable[..., Awaitable[Any]], *words: Any, **named: Any) -> Any:
        """The reply to `request(…)`. Raises NotThereError, ModelError, StopRunError."""
        attempt = partial(self.once, request, *words, **named)
        return await call_with_retries(attempt, limiter=self._limiter, retries=Retries(self.policy))

    async def once(self, request: Callable[..., Awaitable[Any]], *words: Any, **named: Any) -> Any:
        """The reply to a single attempt. Raises EndpointFailure if its effect is unknown, and the errors above."""
        try:
            return await request(*words, **named)
        except NoReplyError as error:
            raise unanswered(error, self._replica) from None
        except ValueError as error:
            raise EndpointFailure(f"{self._replica.shown}: the reply of the batch API is not JSON: {error}") from None
        except openai.APIStatusError as error:
            failure = response_meaning(error.response, self._replica.key_advice)
            raise NotThereError(str(failure)) if error.status_code == 404 else failure from None

    async def download(self, path: str, file: BinaryIO) -> None:
        """Download a path to a file. Raises NotThereError, ModelError, StopRunError."""

        async def attempt() -> None:
            file.seek(0)
            file.truncate()
            stream = await self.client.get(path, cast_to=object, stream=True, stream_cls=openai.AsyncStream[object])
            async with stream:
                request, chunks = stream.response.request, stream.response.aiter_bytes()
                while True:
                    with connection_errors(request):
                        chunk = await anext(chunks, b"")
                    if not chunk:
                        return
                    file.write(chunk)
                    if file.tell() > MOST_RESULT_BYTES:
                        words = f"the results are longer than {MOST_RESULT_BYTES:,} bytes"
                        raise TooLongError(words, request, file.tell())

        await self(attempt)


class OpenAIBatches:
    """OpenAI's API: a JSON lines file is uploaded, the results are another file. The input file identifies a batch."""

    def __init__(self, send: Sender, url: str) -> None:
        self._send = send
        self._client = send.client

    async def prepare(self, bodies: Bodies) -> str:
        """Upload the requests, which costs nothing. Returns the file's id, which finds the batch if the reply to its
        creation is lost.
        """
        lines = "".join(
            json.dumps({"custom_id": name, "method": "POST", "url": _ENDPOINT, "body": body}) + "\n"
            for name, body in bodies.items()
        )
        file = ("requests.jsonl", lines.encode(), "application/jsonl")
        return _id(await self._send(self._client.files.create, file=file, purpose="batch"))

    async def create(self, mark: str, bodies: Bodies) -> str:
        """Create the batch with one request. Returns its id. Raises EndpointFailure if it may or may not exist."""
        create = self._client.batches.create
        return _id(await self._send.once(create, input_file_id=mark, endpoint=_ENDPOINT, completion_window="24h"))

    async def search(self, mark: str, requests: int, known: Collection[str]) -> str | None:
        """The batch with this mark and number of requests that is not one of the known ones."""
        page = self._client.batches.list
        async for batch in _batches(self._send, lambda last: page(limit=_PAGE, after=last or openai.omit)):
            if batch.get("input_file_id") == mark:
                return str(batch["id"])
        return None

    async def ended(self, batch: str) -> list[str] | None:
        """The paths of the results, None while the batch is running. Raises BatchLostError."""
        state = _members(await self._send(self._client.batches.retrieve, batch))
        if state.get("status") == "failed":
            raise BatchLostError(error_text(f"it failed: {json.dumps(state.get('errors'))}"))
        if state.get("status") not in ("completed", "expired", "cancelled"):
            return None
        files = [state[name] for name in ("output_file_id", "error_file_id") if state.get(name)]
        return [f"/files/{file}/content" for file in files]

    def result(self, line: dict[str, Any]) -> tuple[str, dict[str, Any] | str]:
        """The name of a request, and its reply or the reason why there is none."""
        response = as_object(line.get("response"))
        body = response.get("body")
        if response.get("status_code") != 200 or not isinstance(body, dict):
            body = json.dumps(line.get("error") or response)
        return str(line.get("custom_id")), body


class AnthropicBatches:
    """Anthropic's API: requests and replies are bodies of the API itself. A batch is searched among those newer than
    the previous newest one, by the number of its requests. Its results show whether it is the right one.
    """

    def __init__(self, send: Sender, url: str) -> None:
        self._send = send
        self._client = send.client
        self._url = f"{url}/batches"

    async def prepare(self, bodies: Bodies) -> str:
        """The id of the newest batch; empty if there is none."""
        async for batch in _batches(self._send, self._page):
            return str(batch.get("id"))
        return ""

    async def create(self, mark: str, bodies: Bodies) -> str:
        body = {"requests": [{"custom_id": name, "params": body} for name, body in bodies.items()]}
        return _id(await self._send.once(self._client.post, self._url, cast_to=openai.BaseModel, body=body))

    async def search(self, mark: str, requests: int, known: Collection[str]) -> str | None:
        async for batch in _batches(self._send, self._page):
            if batch.get("id") == mark:
                return None
            counts = as_object(batch.get("request_counts")).values()
            if sum(count for count in counts if isinstance(count, int)) == requests and batch.get("id") not in known:
                return str(batch["id"])
        return None

    async def ended(self, batch: str) -> list[str] | None:
        url = f"{self._url}/{batch}"
        state = _members(await self._send(self._client.get, url, cast_to=openai.BaseModel))
        return [f"{url}/results"] if state.get("processing_status") == "ended" else None

    def result(self, line: dict[str, Any]) -> tuple[str, dict[str, Any] | str]:
        result = as_object(line.get("result"))
        good = result.get("type") == "succeeded" and isinstance(result.get("message"), dict)
        return str(line.get("custom_id")), result["message"] if good else json.dumps(result)

    async def _page(self, last: str) -> Any:
        params: dict[str, object] = {"limit": _PAGE} | ({"after_id": last} if last else {})
        return await self._client.get(self._url, cast_to=openai.BaseModel, options={"params": params})


async def _batches(send: Sender, page: Callable[[str], Awaitable[Any]]) -> AsyncIterator[dict[str, Any]]:
    """The batches of an account, newest first. `page` gets those after a batch."""
    last = ""
    while True:
        reply = _members(await send(page, last))
        batches = objects(reply.get("data"))
        for batch in batches:
            yield batch
        if not reply.get("has_more") or not batches:
            return
        last = str(batches[-1].get("id"))


def _members(reply: Any) -> dict[str, Any]:
    """The members of a reply. `openai` returns a text if it is not JSON."""
    if not isinstance(reply, openai.BaseModel):
        raise EndpointFailure("the reply of the batch API is not a JSON object")
    return reply.to_dict()


def _id(reply: Any) -> str:
    value = _members(reply).get("id")
    if not isinstance(value, str) or not value:
        raise EndpointFailure("the reply of the batch API contains no id")
    return value
