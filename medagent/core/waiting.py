"""Run asynchronous work from programs without an event loop, or whose loop is busy (a notebook's)."""

from __future__ import annotations

import asyncio
import gc
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
    """Cancel the rest of the work, which may ignore this; its errors are not reported. Asynchronous generators without
    users close; those that are still used stay open, because they may belong to an object that outlives this call.
    """
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda *_: None)
    if _others():
        _cancel_others()
        await _ended()
        gc.collect()  # a cancelled task, and the generators that it used, may be in a cycle with its error
    await asyncio.sleep(0)  # the loop starts to close generators that nobody uses
    await _ended()
    if unended := _others():
        # Freeing such a task would raise GeneratorExit in its code, which may loop. A daemon thread is never freed.
        threading.Thread(target=lambda _: threading.Event().wait(), args=(unended,), daemon=True).start()


async def close_generators() -> None:
    """Close all asynchronous generators of this loop. Only for a loop whose process ends after it."""
    with suppress(TimeoutError):
        await asyncio.wait_for(asyncio.get_running_loop().shutdown_asyncgens(), LEFT_WITHIN_S)


def _cancel_others() -> None:
    """In a function of its own, because a variable with a task would keep what the task uses."""
    for task in _others():
        task.cancel()


async def _ended() -> None:
    """Wait for the other tasks, up to `LEFT_WITHIN_S`."""
    loop = asyncio.get_running_loop()
    until = loop.time() + LEFT_WITHIN_S
    while _others() and (left := until - loop.time()) > 0:
        await asyncio.wait(_others(), timeout=left)


def _others() -> set[asyncio.Task[Any]]:
    return asyncio.all_tasks() - {asyncio.current_task()}
