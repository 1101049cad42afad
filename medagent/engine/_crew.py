"""The workers of a cluster during one run: their units, and the handling of lost workers.

Workers may join and leave. If a worker is lost or does not reply, any of its units may be the cause. Each of them is
run once more, alone on a worker. A unit whose worker is lost again becomes an `agent_error`; the others only take
longer.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

from medagent.core.clock import wall_clock
from medagent.core.errors import ExecutorLostError, MedagentError, UserError
from medagent.core.version import __version__
from medagent.engine._cluster_demand import WorkerWait
from medagent.engine._cluster_worker import (
    CLOSED_WITHIN_S,
    POLL_S,
    Carried,
    DriverFile,
    Exchange,
    Opened,
    Opening,
    close_here,
    exchange_here,
    open_here,
    pack,
    take_here,
)
from medagent.engine.boundary import PluginError, fail
from medagent.engine.job import Unit
from medagent.engine.progress import Progress
from medagent.engine.rows import Row
from medagent.models.limiter import EndpointStats

ANSWERS_WITHIN_S = POLL_S + 60.0
"""A worker that does not reply within these seconds is given up."""
OPENED_WITHIN_S = 600.0
"""Seconds for a worker to open the job; it may have to build or fetch a hospital."""
NONE_LEFT_S = 120.0
"""Seconds that a run without workers waits for one."""
WATCHED_EVERY_S = 0.5
LAST_ROWS_WITHIN_S = 0.5
GATHER_S = 0.005
"""Seconds that a unit waits for others that go to the same worker."""
PART_BYTES = 8 << 20
"""The size of the parts in which a missing file is sent to a worker."""


class _LostError(MedagentError):
    """The worker of a unit was lost; the text says how."""


class _LeftError(MedagentError):
    """The worker of a unit was stopped by its cluster, so no unit is the cause."""


class _Worker:
    def __init__(self, address: str) -> None:
        self.address = address
        self.joining = True
        self.usable = False
        self.reserved = False
        """Whether it is reserved for a single unit."""
        self.units: dict[str, asyncio.Future[Carried]] = {}
        self.outbox: list[Unit] = []
        self.exchanges = 0
        self.stats: Sequence[EndpointStats] = ()

    def settle(self, carried: Carried) -> None:
        future = self.units.pop(carried.unit, None)
        if future is not None and not future.done():
            future.set_result(carried)

    def lose(self, error: MedagentError) -> None:
        self.usable = False
        for future in self.units.values():
            if not future.done():
                future.set_exception(error)
        self.units.clear()
        self.outbox.clear()


class Crew:
    """The workers of `client`. `replace` starts a new process for a worker if possible. `wait` is the number of workers
    to wait for in an external cluster. If the run cannot continue, `over` is done, with the reason.
    """

    def __init__(
        self,
        client: Any,
        opening: Opening,
        row: type[Row],
        replace: Callable[[str], None],
        progress: Progress,
        wait: WorkerWait | None = None,
    ) -> None:
        self._client = client
        self._opening = opening
        self._row = row
        self._replace = replace
        self._progress = progress
        self._patience_s = max(NONE_LEFT_S, wait.seconds if wait else 0.0)
        self._workers: dict[str, _Worker] = {}
        self._sending: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._exchanges: set[asyncio.Task[None]] = set()
        self.ending = False
        self._last_usable = time.monotonic()
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def begin(self) -> None:
        """Start to let workers join."""
        self._start(self._watch())

    async def carry_out(self, unit: Unit) -> Carried:
        """Run a unit on a worker. Returns its result."""
        lost = ""
        while True:
            alone = bool(lost)
            worker = await self._pick(alone)
            if worker is None:
                return Carried(unit.key)
            future: asyncio.Future[Carried] = asyncio.get_running_loop().create_future()
            worker.units[unit.key] = future
            worker.outbox.append(unit)
            self._flush_soon(worker)
            try:
                return await future
            except _LeftError:
                pass
            except _LostError as error:
                lost = str(error)
                if alone:
                    break
            finally:
                worker.reserved = worker.reserved and not alone
                self._tell()
        row = self._row.begin(unit)
        row.started = row.timestamp = wall_clock()
        fail(row, PluginError("agent", _LostError(lost), f"its worker {lost}"))
        return Carried(unit.key, row)

    async def close(self) -> None:
        """End the run on every worker. Units in progress get their rows."""
        self.ending = True
        self._tell()
        usable = [worker for worker in self._workers.values() if worker.usable]
        await asyncio.gather(*map(self._close, usable))
        if self._exchanges:  # their replies may have rows
            await asyncio.wait(self._exchanges, timeout=LAST_ROWS_WITHIN_S)
        for task in self._tasks:
            task.cancel()
        for worker in self._workers.values():
            for unit in list(worker.units):
                worker.settle(Carried(unit))

    async def _close(self, worker: _Worker) -> None:
        with suppress(OSError, MedagentError):
            self._take(worker, await self._call(worker, close_here, self._opening.run, within=CLOSED_WITHIN_S + 0.5))

    async def _pick(self, alone: bool) -> _Worker | None:
        """The worker with the fewest units; if `alone`, a worker without units, which gets no others. None if the run
        ends.
        """
        while not self.ending:
            free = [worker for worker in self._workers.values() if worker.usable and not worker.reserved]
            if not free:
                await self._changed.wait()
                continue
            worker = min(free, key=lambda one: len(one.units))
            if not alone:
                return worker
            worker.reserved = True
            while worker.units and worker.usable:
                await self._changed.wait()
            if worker.usable:
                return worker
        return None

    def _flush_soon(self, worker: _Worker) -> None:
        """Exchange units for rows after `GATHER_S`, when the lanes that just got rows have sent their next units."""
        asyncio.get_running_loop().call_later(GATHER_S, self._flush, worker)

    def _flush(self, worker: _Worker) -> None:
        if worker.usable and not self.ending and (worker.outbox or (worker.units and not worker.exchanges)):
            units, worker.outbox = worker.outbox, []
            worker.exchanges += 1
            exchange = self._start(self._exchange(worker, units))
            self._exchanges.add(exchange)
            exchange.add_done_callback(self._exchanges.discard)

    async def _exchange(self, worker: _Worker, units: Sequence[Unit]) -> None:
        try:
            packed = pack(units) if units else b""
            exchange = await self._call(worker, exchange_here, self._opening.run, packed, within=ANSWERS_WITHIN_S)
        except TimeoutError:
            await self._lose(worker, f"did not reply for {ANSWERS_WITHIN_S:g} s")
        except OSError:
            await self._lose(worker, "died")
        except MedagentError as error:
            self._end(UserError(f"worker {worker.address}: {error}"))
        else:
            self._take(worker, exchange)
            self._flush_soon(worker)
        finally:
            worker.exchanges -= 1

    def _take(self, worker: _Worker, exchange: Exchange) -> None:
        for carried in exchange.carried:
            worker.settle(carried)
        worker.stats = exchange.stats
        self._progress.watch([stats for one in self._workers.values() for stats in one.stats])
        if exchange.worn and not worker.reserved:
            worker.reserved = True  # so that it gets no more units
            self._start(self._wear_out(worker, exchange.worn))
        self._tell()

    async def _wear_out(self, worker: _Worker, why: str) -> None:
        """Wait for the last units of a worker that gets no more, then drop it."""
        while worker.units:
            await self._changed.wait()
        await self._lose(worker, f"gets no more units: {why}")

    async def _lose(self, worker: _Worker, how: str) -> None:
        """Drop a worker. If the scheduler is lost too, do nothing: the state of its units is unknown."""
        if self._workers.get(worker.address) is not worker or not worker.usable:
            return
        try:
            async with asyncio.timeout(ANSWERS_WITHIN_S):
                await self._client.nthreads()
        except (OSError, TimeoutError):
            return  # `_watch` detects it
        left = await self._has_left(worker)
        if worker.usable:
            self._progress.note(f"worker {worker.address} {'left' if left else how}")
            worker.lose(_LeftError() if left else _LostError(how))
            self._replace(worker.address)
            self._tell()

    async def _has_left(self, worker: _Worker) -> bool:
        """Whether the scheduler stopped the worker, as an adaptive cluster and `--lifetime` do."""
        try:
            async with asyncio.timeout(ANSWERS_WITHIN_S):
                events = await self._client.get_events(worker.address)
        except (OSError, TimeoutError):
            return False
        gone = [event for _, event in events if event.get("action") == "remove-worker"]
        return bool(gone) and gone[-1].get("expected") is True

    async def _watch(self) -> None:
        """Track the workers until the scheduler is lost."""
        while self._client.status == "running":
            try:
                async with asyncio.timeout(ANSWERS_WITHIN_S):
                    there = set(await self._client.nthreads())
            except (OSError, TimeoutError):
                break
            for address in there - self._workers.keys():
                worker = self._workers[address] = _Worker(address)
                self._start(self._join(worker))
            for address in self._workers.keys() - there:
                await self._lose(self._workers[address], "died")
                del self._workers[address]
            if any(worker.usable or worker.joining for worker in self._workers.values()):
                self._last_usable = time.monotonic()
            elif time.monotonic() - self._last_usable > self._patience_s:
                self._end(ExecutorLostError("no worker is left"))
            await asyncio.sleep(WATCHED_EVERY_S)
        self._end(ExecutorLostError("the connection to the scheduler is lost"))

    async def _join(self, worker: _Worker) -> None:
        """Make a worker open the job."""
        try:
            opened = await self._call(worker, open_here, self._opening, within=OPENED_WITHIN_S)
            if opened.lacking:
                await self._send(worker, opened.lacking)
                opened = await self._call(worker, open_here, self._opening, within=OPENED_WITHIN_S)
        except TimeoutError:
            self._progress.note(
                f"worker {worker.address} did not open the job within {OPENED_WITHIN_S:g} s and is not used"
            )
            return
        except OSError:  # it has already left
            return
        except MedagentError as error:
            opened = Opened(fix=str(error))
        finally:
            worker.joining = False
        if opened.lacking:
            opened = Opened(fix=f"{opened.lacking[0].path} was not copied completely")
        if opened.fix is not None:
            self._end(UserError(f"worker {worker.address}: {opened.fix}"))
        worker.usable = True
        self._tell()

    async def _send(self, worker: _Worker, files: Sequence[DriverFile]) -> None:
        for file in files:
            async with self._sending[file.sha256]:
                with file.path.open("rb") as content:
                    start, part = 0, b"-"
                    while part:
                        part = content.read(PART_BYTES)
                        await self._call(worker, take_here, file, start, part, within=OPENED_WITHIN_S)
                        start += len(part)

    async def _call(self, worker: _Worker, function: Callable[..., Any], *args: Any, within: float) -> Any:
        """Call a function in a worker's process. Raises OSError if the process is lost, TimeoutError, MedagentError."""
        async with asyncio.timeout(within):
            results = await self._client.run(function, *args, workers=[worker.address], on_error="return")
        result = results[worker.address]
        if isinstance(result, OSError | MedagentError):
            raise result
        if isinstance(result, Exception):
            raise UserError(no_medagent(result))
        return result

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._end(error)

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _end(self, error: BaseException) -> None:
        if not self.over.done():
            self.over.set_exception(error)
            self.over.exception()  # marks it as read, so that asyncio does not log it


def no_medagent(error: Exception) -> str:
    """The message for a process that cannot unpickle medagent's objects."""
    reason = f"{type(error).__name__}: {error}".splitlines()[0]
    return f"cannot import this medagent ({reason}); install medagent {__version__} there"
