"""Run asynchronous work from programs without an event loop, or whose loop is busy (a notebook's)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")
LEFT_WITHIN_S = 2.0
"""Seconds for which tasks and threads of user code may keep finished work from its end."""


def blocking(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine and return its result, without an event loop. Inside a running loop, a separate thread waits."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _run(work)
    return ThreadPoolExecutor(1, "medagent-run").submit(_run, work).result()


def _run(work: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run`, which would wait forever for a task that ignores its cancellation."""
    done: list[T] = []

    async def noted() -> None:
        done.append(await work)  # a Runner formats its task's result as text, which is slow for a large one

    runner = asyncio.Runner()
    try:
        runner.run(noted())
        return done[0]
    finally:
        runner.run(end_others())
        runner.get_loop().close()


async def end_others() -> None:
    """Cancel the rest of the work. It may ignore this, and its errors are not reported."""
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        _, unended = await asyncio.wait(others, timeout=LEFT_WITHIN_S)
        if unended:
            # Freeing such a task would raise GeneratorExit in its code, which may loop. A daemon thread is never freed.
            threading.Thread(target=lambda _: threading.Event().wait(), args=(unended,), daemon=True).start()
    with suppress(TimeoutError):
        await asyncio.wait_for(asyncio.get_running_loop().shutdown_asyncgens(), LEFT_WITHIN_S)
