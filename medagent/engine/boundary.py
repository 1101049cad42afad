"""Catches the failures of units: owner, message, traceback. Runs code that may block in lanes.

An exception of an agent, a model plug-in, a grader or a benchmark becomes the status of the unit's row; `SystemExit`
and `KeyboardInterrupt` too, because signals do not raise in a run. `blame` sets the owner around calls of user code.
`perform` catches the exception, and abandons a unit that does not end. Errors that must end the run (StopRunError,
UserError) pass through.

A lane is a thread with an event loop of its own. A unit that blocks it delays no other unit, and can be abandoned.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Generic, Literal, TypeVar

from medagent.core.clock import wall_clock
from medagent.core.errors import EpisodeError, MedagentError, StopRunError, UnitLimitError, UserError
from medagent.core.scrub import printable
from medagent.engine.limits import UNIT_UNLIMITED, UnitLimits, unit_limits
from medagent.engine.plan import U, Worker
from medagent.engine.rows import R, Row
from medagent.models.retry import Retries, open_calls

Owner = Literal["agent", "model", "fhir", "grader", "benchmark"]

GRACE_S = 1.5
"""Seconds for a cancelled unit to end and close its connections. Then it is abandoned."""
LONGEST_ERROR = 2_000
LONGEST_TRACEBACK = 50_000
"""The most characters of an error and of its traceback in a row.

A traceback keeps its end, which contains the cause.
"""


class PluginError(MedagentError):
    """The code of `owner` raised `cause`, which is not a medagent error. `text` replaces the cause's own message."""

    def __init__(self, owner: Owner, cause: BaseException, text: str = "") -> None:
        super().__init__(text or described(cause))
        self.owner = owner
        self.cause = cause


@contextmanager
def blame(owner: Owner) -> Iterator[None]:
    """Name the owner of the errors that user code raises inside. The innermost owner counts."""
    process = os.getpid()
    try:
        yield
    except MedagentError:
        raise
    except BaseException as error:
        if _ends_the_task(error):
            raise
        if isinstance(error, BaseExceptionGroup) and (ours := _first_of_ours(error)) is not None:
            raise ours from error
        raise PluginError(owner, error) from error
    finally:
        if os.getpid() != process:
            os._exit(0)  # user code forked and returned twice; the run belongs to the first process


def _ends_the_task(error: BaseException) -> bool:
    """Whether an exception is the task's own cancellation, or the closing of an unfinished coroutine."""
    if not isinstance(error, asyncio.CancelledError | GeneratorExit):
        return False
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    if isinstance(error, GeneratorExit):
        return task is None
    return task is not None and task.cancelling() > 0


def _first_of_ours(group: BaseExceptionGroup[BaseException]) -> MedagentError | None:
    """The first medagent error in a group, so that a model's failure in a task group counts as one outside it."""
    for error in group.exceptions:
        if isinstance(error, MedagentError):
            return error
        if isinstance(error, BaseExceptionGroup) and (inner := _first_of_ours(error)) is not None:
            return inner
    return None


def described(error: BaseException) -> str:
    """An exception's type and text, with at most `LONGEST_ERROR` characters and without control characters."""
    try:
        text = str(error)
    except BaseException as failure:
        text = f"(its text is not available: {type(failure).__name__})"
    return printable(f"{type(error).__name__}: {text[:LONGEST_ERROR]}")


@dataclass(frozen=True, slots=True)
class Performed(Generic[R]):
    """A unit's row (None if it was not started), the error that must stop the run, and whether the run was cancelled
    meanwhile.
    """

    row: R | None
    stop: StopRunError | UserError | None = None
    cancelled: bool = False


async def perform(
    worker: Worker[U, R], unit: U, row: R, lane: Lane, limits: UnitLimits = UNIT_UNLIMITED
) -> Performed[R]:
    """Run a unit. Its row always gets a status and what the unit spent. A unit that exceeds its time, or that does not
    end when the run ends, is abandoned. If its time expires while an endpoint fails, that is the endpoint's failure.
    """
    row.started, clock = wall_clock(), time.monotonic()
    calls: list[Retries] = []
    task = asyncio.create_task(_carry_out(worker, unit, row, lane, limits, calls))
    overdue = cancelled = False
    try:
        overdue = not (await asyncio.wait([task], timeout=limits.seconds))[0]
    except asyncio.CancelledError:
        cancelled = True
    late = _late(limits, calls) if overdue else None
    if overdue or cancelled:
        task.cancel()
        await _ended(task)
    stop: StopRunError | UserError | None = None
    if task.done():
        stop = _conclude(task, row)
    else:
        row = row.model_copy()  # an abandoned task may still change the original
    if not task.done() or task.cancelled():
        row.status = "cancelled"
        if late is not None:
            row.status, row.error = late.status, str(late)
            row.spent.add_failure(late)
    try:
        if not task.done():
            _abandon(task, lane, unit.key)
        lane.end_unit(unit.key)
    except StopRunError as error:
        stop = stop or error
    row.timestamp, row.seconds = wall_clock(), round(time.monotonic() - clock, 3)
    return Performed(row, stop, cancelled)


def _late(limits: UnitLimits, calls: list[Retries]) -> EpisodeError:
    """Why a unit exceeds its time: an open call that an endpoint holds up, or else the agent."""
    limit = f"not done in {limits.seconds:g} s; --per-item time"
    held_up = (call.held_up(limit) for call in calls)
    return next((failure for failure in held_up if failure is not None), UnitLimitError("time_limit", limit))


async def _carry_out(
    worker: Worker[U, R], unit: U, row: R, lane: Lane, limits: UnitLimits, calls: list[Retries]
) -> None:
    unit_limits.set(limits)
    open_calls.set(calls)
    current_lane.set(lane)
    try:
        with blame("benchmark"):
            await worker.run(unit, row)
    finally:
        for close in () if lane.busy else lane.closing:
            with suppress(MedagentError), blame("agent"):  # the unit's answer stays valid
                await close()


async def _ended(task: asyncio.Task[None]) -> None:
    """Wait up to `GRACE_S` for a cancelled task, even if the run is cancelled meanwhile."""
    until = time.monotonic() + GRACE_S
    while not task.done() and (left := until - time.monotonic()) > 0:
        with suppress(asyncio.CancelledError):
            await asyncio.wait([task], timeout=left)


def _abandon(task: asyncio.Task[None], lane: Lane, unit: str) -> None:
    """Abandon a task that ignores its cancellation. Raises TooManyAbandonedError if there are too many."""
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # marks its error as read
    lane.abandoned.add(unit, lambda: not task.done())


def _conclude(task: asyncio.Task[None], row: Row) -> StopRunError | UserError | None:
    """Set the row's status from the unit's end. Returns the error that must stop the run."""
    try:
        task.result()
    except EpisodeError as failure:
        row.status, row.error = failure.status, str(failure)
        row.spent.add_failure(failure)
    except PluginError as failure:
        fail(row, failure)
    except (StopRunError, UserError) as error:
        row.status, row.error = "cancelled", str(error)
        return error
    except asyncio.CancelledError:
        pass  # `perform` sets the status
    except MedagentError as error:
        fail(row, PluginError("benchmark", error))
    return None


def fail(row: Row, failure: PluginError) -> None:
    """Put an error of user code into a row: the owner's status, the message, the traceback."""
    row.status = f"{failure.owner}_error"
    row.error = str(failure)
    row.error_type = type(failure.cause).__name__
    lines = "".join(traceback.format_exception(failure.cause))
    row.traceback = lines if len(lines) <= LONGEST_TRACEBACK else f"[…]{lines[-LONGEST_TRACEBACK:]}"


T = TypeVar("T")
ABANDONED_PER_LANE = 2
"""The most abandoned threads and tasks per lane. With more, the run ends, because they would take ever more CPU."""
_NAMED = 5


class TooManyAbandonedError(StopRunError):
    """Too many abandoned threads and tasks run in this process. Another one can run the other units."""


class Abandoned:
    """The abandoned threads and tasks of a process, by the units that left them."""

    def __init__(self, lanes: int) -> None:
        self._most = ABANDONED_PER_LANE * lanes
        self._running: list[tuple[str, Callable[[], bool]]] = []

    def add(self, unit: str, is_running: Callable[[], bool]) -> None:
        """Count an abandoned thread or task until it ends. Raises TooManyAbandonedError if there are too many."""
        self._running = [(left, runs) for left, runs in self._running if runs()] + [(unit, is_running)]
        if len(self._running) > self._most:
            units = ", ".join(unit for unit, _ in self._running[:_NAMED])
            more = ", …" if len(self._running) > _NAMED else ""
            raise TooManyAbandonedError(
                f"the agents of {len(self._running)} units do not end and cannot be stopped: {units}{more}; "
                "run this agent with --workers 1, which replaces its process"
            )


class Lane:
    """Runs one unit after the other. Belongs to one event loop."""

    def __init__(self, abandoned: Abandoned) -> None:
        self.abandoned = abandoned
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
        """Whether a call is still running, even if its caller no longer waits for it."""
        return self._thread is not None and self._thread.waiting > 0

    def end_unit(self, unit: str) -> None:
        """Abandon the thread if it is still busy with the unit. Raises TooManyAbandonedError if there are too many."""
        self.closing.clear()
        thread = self._thread
        if thread is not None and self.busy:
            self.close()
            self.abandoned.add(unit, thread.is_alive)

    def close(self) -> None:
        """End the thread as soon as it is idle."""
        if self._thread is not None:
            self._thread.end()
        self._thread = None


current_lane: ContextVar[Lane | None] = ContextVar("medagent_lane", default=None)
"""The lane of the current unit; None outside a run."""


async def beside(function: Callable[[], T]) -> T:
    """Call a function that may block: in the thread of the unit's lane, or directly if no run is active."""
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
