"""A FHIR double as a connector of aiohttp: a loopback port answers for every host."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import ExitStack
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from aiohttp.client_proto import ResponseHandler

from medagent.testing._faults import Answer, Handler
from medagent.testing._loopback import serving


class DoubleConnector(aiohttp.BaseConnector):
    """Create it in a running event loop; `stack` closes its ports. Each origin gets its own port, so that the double
    sees the requested address, also with `https`.
    """

    def __init__(self, handler: Handler, stack: ExitStack) -> None:
        super().__init__()
        self._handler = handler
        self._stack = stack
        self._ports: dict[str, int] = {}

    async def _create_connection(self, req: aiohttp.ClientRequest, traces: Any, timeout: Any) -> ResponseHandler:  # noqa: ASYNC109  # aiohttp's own
        """Opens a connection; subclasses of aiohttp's connector implement this method."""
        loop, origin = asyncio.get_running_loop(), str(req.url.origin())
        if origin not in self._ports:
            address = self._stack.enter_context(serving(partial(self._answer, origin)))
            self._ports[origin] = urlsplit(address).port or 0
        _, protocol = await loop.create_connection(lambda: ResponseHandler(loop), "127.0.0.1", self._ports[origin])
        return protocol

    def _answer(self, origin: str, method: str, url: str, headers: Iterable[tuple[str, str]], body: bytes) -> Answer:
        parts = urlsplit(url)
        query = f"?{parts.query}" if parts.query else ""
        return self._handler(method, f"{origin}{parts.path}{query}", headers, body)
