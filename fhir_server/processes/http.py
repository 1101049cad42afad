"""Runs an ASGI application on a listening socket, with uvicorn."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager

import uvicorn

from fhir_server.access import Access
from fhir_server.app import App, Handler
from fhir_server.processes import _log as log
from fhir_server.processes._connection import Connection
from fhir_server.wire.http import leave_out_reason_phrases


def run(access: Access, server: Handler, listener: socket.socket, beside: AbstractAsyncContextManager[object]) -> None:
    """Serves on the socket in this thread until a signal comes. `beside` runs in the same event loop."""
    leave_out_reason_phrases()
    log.one_line_each()
    config = _config(access.application(server))

    async def serve() -> None:
        async with beside:
            await uvicorn.Server(config).serve(sockets=[listener])

    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(serve())
    log.flush()


@contextmanager
def serving(app: App, listener: socket.socket) -> Iterator[None]:
    """Serves on the socket in another thread while the block runs."""
    server = uvicorn.Server(_config(app))
    thread = threading.Thread(target=server.run, args=([listener],), name="fhir-server", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()


def _config(app: App) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=Connection,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        proxy_headers=False,
        ws="none",
    )
