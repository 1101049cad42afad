"""The batch APIs of providers: how a batch is created, found, and read line by line."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Collection, Mapping
from typing import Any, Protocol

import httpx

from medagent.core.errors import MedagentError
from medagent.core.scrub import error_text
from medagent.models.batches._sender import Sender
from medagent.models.retry import EndpointFailure
from refsol.json_values import as_object, json_value, objects

Bodies = Mapping[str, dict[str, Any]]
"""Request bodies by request name."""
_BOUNDARY = "medagent-batch"
_PAGE = 100


class BatchLostError(MedagentError):
    """A batch that will never have results. The text gives the reason."""


class BatchApi(Protocol):
    """A provider's batch API."""

    async def prepare(self, bodies: Bodies) -> str:
        """Returns a mark by which a batch can be found if the reply to its creation is lost. Costs nothing."""

    async def create(self, mark: str, bodies: Bodies) -> str:
        """Create the batch with one request. Returns its id. Raises EndpointFailure if it may or may not exist."""

    async def search(self, mark: str, requests: int, known: Collection[str]) -> str | None:
        """The batch with this mark and number of requests that is not one of the known ones."""

    async def ended(self, batch: str) -> list[str] | None:
        """The URLs of the results, None while the batch is running. Raises BatchLostError."""

    def result(self, line: dict[str, Any]) -> tuple[str, dict[str, Any] | str]:
        """The name of a request, and its reply or the reason why there is none."""


class OpenAIBatches:
    """OpenAI's API: a JSON lines file is uploaded, the results are another file. The input file identifies a batch."""

    def __init__(self, send: Sender, url: str) -> None:
        self._send = send
        self._base = url.removesuffix("/chat/completions")

    async def prepare(self, bodies: Bodies) -> str:
        """See `BatchApi`: the id of the uploaded file."""
        lines = "".join(
            json.dumps({"custom_id": name, "method": "POST", "url": "/v1/chat/completions", "body": body}) + "\n"
            for name, body in bodies.items()
        )
        parts = (
            f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--{_BOUNDARY}\r\n'
            'Content-Disposition: form-data; name="file"; filename="requests.jsonl"\r\n'
            f"Content-Type: application/jsonl\r\n\r\n{lines}\r\n--{_BOUNDARY}--\r\n"
        )
        kind = f"multipart/form-data; boundary={_BOUNDARY}"
        return _id(await self._send("POST", f"{self._base}/files", parts.encode(), kind))

    async def create(self, mark: str, bodies: Bodies) -> str:
        """See `BatchApi`."""
        order = {"input_file_id": mark, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
        return _id(await self._send.once("POST", f"{self._base}/batches", json.dumps(order).encode()))

    async def search(self, mark: str, requests: int, known: Collection[str]) -> str | None:
        """See `BatchApi`."""
        async for batch in _pages(self._send, f"{self._base}/batches", "after"):
            if batch.get("input_file_id") == mark:
                return str(batch["id"])
        return None

    async def ended(self, batch: str) -> list[str] | None:
        """See `BatchApi`."""
        state = _object(await self._send("GET", f"{self._base}/batches/{batch}"))
        if state.get("status") == "failed":
            raise BatchLostError(error_text(f"it failed: {json.dumps(state.get('errors'))}"))
        if state.get("status") not in ("completed", "expired", "cancelled"):
            return None
        files = [state[name] for name in ("output_file_id", "error_file_id") if state.get(name)]
        return [f"{self._base}/files/{file}/content" for file in files]

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
        self._send = send
        self._url = f"{url}/batches"

    async def prepare(self, bodies: Bodies) -> str:
        """See `BatchApi`: the id of the newest batch; empty if there is none."""
        async for batch in _pages(self._send, self._url, "after_id"):
            return str(batch.get("id"))
        return ""

    async def create(self, mark: str, bodies: Bodies) -> str:
        """See `BatchApi`."""
        requests = [{"custom_id": name, "params": body} for name, body in bodies.items()]
        return _id(await self._send.once("POST", self._url, json.dumps({"requests": requests}).encode()))

    async def search(self, mark: str, requests: int, known: Collection[str]) -> str | None:
        """See `BatchApi`."""
        async for batch in _pages(self._send, self._url, "after_id"):
            if batch.get("id") == mark:
                return None
            counts = as_object(batch.get("request_counts")).values()
            if sum(count for count in counts if isinstance(count, int)) == requests and batch.get("id") not in known:
                return str(batch["id"])
        return None

    async def ended(self, batch: str) -> list[str] | None:
        """See `BatchApi`."""
        state = _object(await self._send("GET", f"{self._url}/{batch}"))
        return [f"{self._url}/{batch}/results"] if state.get("processing_status") == "ended" else None

    def result(self, line: dict[str, Any]) -> tuple[str, dict[str, Any] | str]:
        """See `BatchApi`."""
        result = as_object(line.get("result"))
        good = result.get("type") == "succeeded" and isinstance(result.get("message"), dict)
        return str(line.get("custom_id")), result["message"] if good else json.dumps(result)


async def _pages(send: Sender, url: str, cursor: str) -> AsyncIterator[dict[str, Any]]:
    """The batches of an account, newest first."""
    last = ""
    while True:
        page = _object(await send("GET", f"{url}?limit={_PAGE}" + (f"&{cursor}={last}" if last else "")))
        batches = objects(page.get("data"))
        for batch in batches:
            yield batch
        if not page.get("has_more") or not batches:
            return
        last = str(batches[-1].get("id"))


def _object(response: httpx.Response) -> dict[str, Any]:
    value = json_value(response.content)
    if not isinstance(value, dict):
        raise EndpointFailure("the reply of the batch API is not a JSON object")
    return value


def _id(response: httpx.Response) -> str:
    value = _object(response).get("id")
    if not isinstance(value, str) or not value:
        raise EndpointFailure("the reply of the batch API has no id")
    return value
