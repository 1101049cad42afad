"""A lane runs one unit at a time. Code that may block runs in the lane's daemon thread, not in the event loop.

A thread cannot be stopped, and a task can ignore its cancellation. If it does not end in time, it is abandoned: its
unit gets its row, the lane continues with a new thread, and `Strays` counts the abandoned threads and tasks that still
run.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from queue import SimpleQueue
from typing import Any, TypeVar

from medagent.core.errors import StopRunError

T = TypeVar("T")
STRAYS_PER_LANE = 2
"""The most abandoned threads and tasks per lane. With more, the run ends, because they would take ever more CPU."""
_NAMED = 5


class WornError(StopRunError):
    """Too many abandoned threads and tasks run in this process. Another one can run the other units."""


class Strays:
    """The abandoned threads and tasks of a process, by the units that left them."""

    def __init__(self, lanes: int) -> None:
        self._most = STRAYS_PER_LANE * lanes
        self._running: list[tuple[str, Callable[[], bool]]] = []

    def add(self, unit: str, is_running: Callable[[], bool]) -> None:
        """Count an abandoned thread or task until it ends. Raises WornError if there are too many."""
        self._running = [(left, runs) for left, runs in self._running if runs()] + [(unit, is_running)]
        if len(self._running) > self._most:
            units = ", ".join(unit for unit, _ in self._running[:_NAMED])
            more = ", …" if len(self._running) > _NAMED else ""
            raise WornError(
                f"the agents of {len(self._running)} units do not end and cannot be stopped: {units}{more}; "
                "run such an agent with --workers 1, which replaces its process"
            )


class Lane:
    """Runs one unit after the other. Belongs to one event loop."""

    def __init__(self, strays: Strays) -> None:
        self.strays = strays
        self.closing: list[Callable[[], Awaitable[object]]] = []
        """Functions to call when the unit ends."""
        self._thread: _Thread | None = None

    async def call(self, function: Callable[[], T]) -> T:
        """Call a function in the lane's thread, which is the same for the whole unit."""
        if self._thread is None:
            self._thread = _Thread()
        return await self._thread.call(function)

    @property
    def busy(self) -> bool:
        """Whether a call has not ended, even if its caller no longer waits for it."""
        return self._thread is not None and self._thread.waiting > 0

    def end_unit(self, unit: str) -> None:
        """Abandon the thread if it is still busy with the unit. Raises WornError if there are too many."""
        self.closing.clear()
        thread = self._thread
        if thread is not None and self.busy:
            self.close()
            self.strays.add(unit, thread.is_alive)

    def close(self) -> None:
        """End the thread as soon as it is idle."""
        if self._thread is not None:
            self._thread.end()
        self._thread = None


current_lane: ContextVar[Lane | None] = ContextVar("medagent_lane", default=None)
"""The lane of the current unit; None outside a run."""


async def beside(function: Callable[[], T]) -> T:
    """Call a function that may block: in the thread of the unit's lane, or directly if there is no run."""
    lane = current_lane.get()
    return function() if lane is None else await lane.call(function)


class _Thread:
    """A daemon thread that calls one function after the other. Threads that these start are daemons too."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Callable[[], Any], asyncio.Future[Any]] | None] = SimpleQueue()
        self.waiting = 0
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._serve, name="medagent-lane", daemon=True)
        self.is_alive = self._thread.is_alive
        self._thread.start()

    async def call(self, function: Callable[[], T]) -> T:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.waiting += 1
        self._calls.put((function, future))
        return await future

    def end(self) -> None:
        self._calls.put(None)

    def _serve(self) -> None:
        while (call := self._calls.get()) is not None:
            function, future = call
            result, error = None, None
            try:
                result = function()
            except BaseException as raised:  # the boundary around the waiting call decides whose failure it is
                error = raised
            if os.getpid() != self._process:
                os._exit(0)  # the function forked and returned twice; this is the extra process
            try:
                future.get_loop().call_soon_threadsafe(self._deliver, future, result, error)
            except RuntimeError:  # the loop is closed because the run is over
                return
            del call, function, future, result, error  # so that an idle thread keeps no object alive

    def _deliver(self, future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
        self.waiting -= 1
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
