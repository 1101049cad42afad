"""The batch APIs of providers: how a batch is created, found, and read line by line; and the requests to them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from typing import Any, BinaryIO, Protocol, TypeVar

import openai

from medagent.core.errors import MedagentError, ModelError, StopRunError
from medagent.core.scrub import error_text
from medagent.models.client import Replica, TooLongError, connection_errors
from medagent.models.limiter import AdaptiveLimiter
from medagent.models.retry import EndpointFailure, RetryPolicy, call_with_retries, retry_after
from refsol.json_values import as_object, objects

T = TypeVar("T")
Bodies = Mapping[str, dict[str, Any]]
"""Request bodies by request name."""
MOST_RESULT_BYTES = 4_000_000_000
"""The maximum size of one batch's results in bytes. They are stored on disk and read line by line."""
_ENDPOINT = "/v1/chat/completions"
_PAGE = 100


class NotThereError(Exception):
    """The API answered 404."""


class BatchLostError(MedagentError):
    """A batch that will never have results. The text gives the reason."""


class Sender:
    """Sends requests of `replica.client` to a batch API. `await send(…)` retries failures like every model request."""

    def __init__(self, replica: Replica, limiter: AdaptiveLimiter, policy: RetryPolicy) -> None:
        self.client, self.policy = replica.client, policy
        self._shown, self._limiter = replica.shown, limiter

    async def __call__(self, request: Callable[..., Awaitable[Any]], *words: Any, **named: Any) -> dict[str, Any]:
        """The members of the reply to `request(…)`. Raises NotThereError, ModelError, StopRunError."""
        return await self._repeated(lambda: self.once(request, *words, **named))

    async def once(self, request: Callable[..., Awaitable[Any]], *words: Any, **named: Any) -> dict[str, Any]:
        """The members of the reply to a single attempt. Raises EndpointFailure if its effect is unknown, NotThereError,
        StopRunError.
        """
        reply = await self._attempt(lambda: request(*words, **named))
        if not isinstance(reply, openai.BaseModel):
            raise EndpointFailure("the reply of the batch API is not a JSON object")
        return reply.to_dict()

    async def download(self, path: str, file: BinaryIO) -> None:
        """Download a path to a file. Raises NotThereError, ModelError, StopRunError."""

        async def attempt() -> None:
            file.seek(0)
            file.truncate()
            stream = await self.client.get(path, cast_to=object, stream=True, stream_cls=openai.AsyncStream[object])
            async with stream:
                chunks = stream.response.aiter_bytes()
                while True:
                    with connection_errors(stream.response.request):
                        chunk = await anext(chunks, b"")
                    if not chunk:
                        return
                    file.write(chunk)
                    if file.tell() > MOST_RESULT_BYTES:
                        words = f"the answer is longer than {MOST_RESULT_BYTES:,} bytes"
                        raise TooLongError(message=words, request=stream.response.request)

        await self._repeated(lambda: self._attempt(attempt))

    async def _repeated(self, attempt: Callable[[], Awaitable[T]]) -> T:
        return (await call_with_retries(attempt, limiter=self._limiter, policy=self.policy)).value

    async def _attempt(self, request: Callable[[], Awaitable[T]]) -> T:
        try:
            return await request()
        except TooLongError as error:
            raise ModelError(error_text(f"{self._shown}: {error}")) from None
        except openai.APIConnectionError as error:
            raise EndpointFailure(error_text(f"{self._shown}: {error}")) from None
        except openai.APIStatusError as error:
            status, sent = error.status_code, error.request.method
            words = f"{self._shown} answered {status} to {sent} of a batch: "
            words = error_text(words + error_text(error.response.text, longest=300))
            if status in (408, 409, 429) or status >= 500:
                raise EndpointFailure(words, retry_after=retry_after(error.response.headers)) from None
            raise (NotThereError if status == 404 else StopRunError)(words) from None


class BatchApi(Protocol):
    """A provider's batch API."""

    async def prepare(self, bodies: Bodies) -> str:
        """Returns a mark by which a batch can be found if the reply to its creation is lost. Costs nothing."""

    async def create(self, mark: str, bodies: Bodies) -> str:
        """Create the batch with one request. Returns its id. Raises EndpointFailure if it may or may not exist."""

    async def search(self, mark: str, requests: int, known: Collection[str]) -> str | None:
        """The batch with this mark and number of requests that is not one of the known ones."""

    async def ended(self, batch: str) -> list[str] | None:
        """The paths of the results, None while the batch is running. Raises BatchLostError."""

    def result(self, line: dict[str, Any]) -> tuple[str, dict[str, Any] | str]:
        """The name of a request, and its reply or the reason why there is none."""


class OpenAIBatches:
    """OpenAI's API: a JSON lines file is uploaded, the results are another file. The input file identifies a batch."""

    def __init__(self, send: Sender, url: str) -> None:
        self._send, self._client = send, send.client

    async def prepare(self, bodies: Bodies) -> str:
        """See `BatchApi`: the id of the uploaded file."""
        lines = "".join(
            json.dumps({"custom_id": name, "method": "POST", "url": _ENDPOINT, "body": body}) + "\n"
            for name, body in bodies.items()
        )
        file = ("requests.jsonl", lines.encode(), "application/jsonl")
        return _id(await self._send(self._client.files.create, file=file, purpose="batch"))

    async def create(self, mark: str, bodies: Bodies) -> str:
        """See `BatchApi`."""
        create = self._client.batches.create
        return _id(await self._send.once(create, input_file_id=mark, endpoint=_ENDPOINT, completion_window="24h"))

    async def search(self, mark: str, requests: int, known: Collection[str]) -> str | None:
        """See `BatchApi`."""
        page = self._client.batches.list
        async for batch in _batches(self._send, lambda last: page(limit=_PAGE, after=last or openai.omit)):
            if batch.get("input_file_id") == mark:
                return str(batch["id"])
        return None

    async def ended(self, batch: str) -> list[str] | None:
        """See `BatchApi`."""
        state = await self._send(self._client.batches.retrieve, batch)
        if state.get("status") == "failed":
            raise BatchLostError(error_text(f"it failed: {json.dumps(state.get('errors'))}"))
        if state.get("status") not in ("completed", "expired", "cancelled"):
            return None
        files = [state[name] for name in ("output_file_id", "error_file_id") if state.get(name)]
        return [f"/files/{file}/content" for file in files]

    def result(self, line: dict[str, Any]) -> tuple[str, dict[str, Any] | str]:
        """See `BatchApi`."""
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
        self._send, self._client = send, send.client
        self._url = f"{url}/batches"

    async def prepare(self, bodies: Bodies) -> str:
        """See `BatchApi`: the id of the newest batch; empty if there is none."""
        async for batch in _batches(self._send, self._page):
            return str(batch.get("id"))
        return ""

    async def create(self, mark: str, bodies: Bodies) -> str:
        """See `BatchApi`."""
        body = {"requests": [{"custom_id": name, "params": body} for name, body in bodies.items()]}
        return _id(await self._send.once(self._client.post, self._url, cast_to=openai.BaseModel, body=body))

    async def search(self, mark: str, requests: int, known: Collection[str]) -> str | None:
        """See `BatchApi`."""
        async for batch in _batches(self._send, self._page):
            if batch.get("id") == mark:
                return None
            counts = as_object(batch.get("request_counts")).values()
            if sum(count for count in counts if isinstance(count, int)) == requests and batch.get("id") not in known:
                return str(batch["id"])
        return None

    async def ended(self, batch: str) -> list[str] | None:
        """See `BatchApi`."""
        url = f"{self._url}/{batch}"
        state = await self._send(self._client.get, url, cast_to=openai.BaseModel)
        return [f"{url}/results"] if state.get("processing_status") == "ended" else None

    def result(self, line: dict[str, Any]) -> tuple[str, dict[str, Any] | str]:
        """See `BatchApi`."""
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
        reply = await send(page, last)
        batches = objects(reply.get("data"))
        for batch in batches:
            yield batch
        if not reply.get("has_more") or not batches:
            return
        last = str(batches[-1].get("id"))


def _id(reply: dict[str, Any]) -> str:
    value = reply.get("id")
    if not isinstance(value, str) or not value:
        raise EndpointFailure("the reply of the batch API has no id")
    return value
