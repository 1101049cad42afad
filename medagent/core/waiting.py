"""Run asynchronous work from programs that have no event loop, or whose loop is busy (a notebook's)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def blocking(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine and return its result, without an event loop. Inside a running loop, a separate thread waits."""
    done: list[T] = []
    failed: list[BaseException] = []

    async def noted() -> None:
        done.append(await work)  # asyncio.run formats its task's result as text, which is slow for a large one

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(noted())
        return done[0]

    def inside() -> None:
        try:
            asyncio.run(noted())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=inside, name="medagent-run")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return done[0]
