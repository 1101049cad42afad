"""Measures the CPU of one model call with each HTTP client, to show whether the project's own transport is worth its
code.

Run: `python -m benchmarks.transport`. The server and each measured client have separate processes. Limiter, retries and
dialect are the same for all; only the HTTP client differs. Figures are the best of three.
"""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import time
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Any

import openai

from benchmarks.engine import model_server
from medagent.models._replica import Replica
from medagent.models.base import Message
from medagent.models.endpoint import ChatEndpoint
from medagent.models.settings import ModelSettings

CALLS = 3000
CONCURRENCY = 64
processes = multiprocessing.get_context("spawn")


class Answer:
    """What `ChatEndpoint` reads of a response."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.headers: dict[str, str] = {}


class Carried(Replica):
    """A replica whose requests go by way of another client."""

    async def post(self, content: bytes) -> Any:
        """See `Replica.post`."""
        client: Any = self.client
        if isinstance(client, openai.AsyncOpenAI):
            library = import_module("httpx2" if openai.__version__.startswith("3.") else "httpx")
            return await client.post(self.url, content=content, cast_to=library.Response, options={"headers": {}})
        async with client.post(self.url, data=content, headers={"Content-Type": "application/json"}) as answer:
            return Answer(await answer.read())


def client_of(kind: str, base_url: str) -> Any:
    """The client that carries the bytes; None: the project's own."""
    if kind == "aiohttp":
        return import_module("aiohttp").ClientSession()
    if kind == "openai's DefaultAioHttpClient":
        http: Any = openai.DefaultAioHttpClient()
        return openai.AsyncOpenAI(base_url=base_url, api_key="k", max_retries=0, http_client=http)
    if kind == "openai's default client":
        return openai.AsyncOpenAI(base_url=base_url, api_key="k", max_retries=0)
    return None


async def calls(kind: str, base_url: str) -> float:
    """CPU milliseconds a call."""
    model = ChatEndpoint(ModelSettings(name="m", base_urls=[base_url]), concurrency=CONCURRENCY)
    client = client_of(kind, base_url)
    if client is not None:
        (own,) = model._replicas
        model._replicas = [Carried(client, own.url, own.omitted, own.shown, own.key_advice)]
    talk = [Message("user", "x" * 4000)]
    waiting = iter(range(CALLS))

    async def lane() -> None:
        for number in waiting:
            await model.complete(talk, session=str(number))

    await model.complete(talk)
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)  # as a run has it
    before = time.process_time()
    await asyncio.gather(*(lane() for _ in range(CONCURRENCY)))
    spent = time.process_time() - before
    await model.aclose()
    if client is not None:
        await client.close()
    return spent / CALLS * 1000


def measure(pipe: Connection, kind: str, base_url: str) -> None:
    """Send the figure of one client."""
    pipe.send(asyncio.run(calls(kind, base_url)))


def main() -> None:
    with model_server("FINISH([])", 0.0) as url:
        for kind in ("this project", "openai's DefaultAioHttpClient", "openai's default client", "aiohttp"):
            figures = []
            for _ in range(3):
                here, there = processes.Pipe()
                process = processes.Process(target=measure, args=(there, kind, url))
                process.start()
                figures.append(here.recv())
                process.join()
            print(f"{kind}: {min(figures):.2f} ms CPU a call ({', '.join(f'{f:.2f}' for f in figures)})")


if __name__ == "__main__":
    main()
