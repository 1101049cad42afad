"""Measures how much faster two workers of a local cluster are than one, for units that block their process for 50 ms.

Run: `python -m benchmarks.cluster`. The units use no core, so that the numbers show what the executor allows, not how
many cores are free. Times are from the start of the first unit to the end of the last one, without the start of the
workers; the best of three. The driver's CPU includes Dask's scheduler and the start of the workers.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.table import machine, row
from medagent.engine.cluster import ClusterExecutor
from medagent.engine.journal import Journal
from medagent.engine.progress import Progress
from medagent.engine.rows import Row
from medagent.engine.run import Watch, run_units
from medagent.models.limiter import EndpointStats

UNIT_S, UNITS, CONCURRENCY = 0.05, 300, 8


class Number(NamedTuple):
    """A unit."""

    key: str


@dataclass(frozen=True)
class Blocking:
    """A job whose units block their process. It is its own worker."""

    concurrency: int = CONCURRENCY
    row: type[Row] = Row
    stats: Sequence[EndpointStats] = ()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Blocking]:
        yield self

    async def run(self, _unit: Number, _row: Row) -> None:
        time.sleep(UNIT_S)  # noqa: ASYNC251  # this is what is measured


def measured(job: Any, units: Sequence[Any], workers: int) -> tuple[float, float]:
    """Milliseconds and the driver's CPU milliseconds for each unit."""
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(Path(folder) / "rows.jsonl", Row)
        executor = ClusterExecutor(None, workers, CONCURRENCY)
        cpu = time.process_time()
        asyncio.run(run_units(job, units, journal, executor, Watch(Progress(quiet=True))))
        cpu = time.process_time() - cpu
        rows = list(journal.rows())
        journal.close()
    begin, end = min(row.started for row in rows), max(row.timestamp for row in rows)
    seconds = (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds()
    return seconds / len(rows) * 1000, cpu / len(rows) * 1000


def main() -> None:
    machine()
    module = import_module("benchmarks.cluster")  # worker processes cannot import `__main__`
    units = [module.Number(str(number)) for number in range(UNITS)]
    single, double = (min(measured(module.Blocking(), units, workers) for _ in range(3)) for workers in (1, 2))
    row("a unit of 50 ms, one worker", "", single[0], "ms")
    row("a unit of 50 ms, two workers", "", double[0], "ms")
    row("units of 50 ms: two workers are faster than one", "≥ 1.7", single[0] / double[0], "times")
    row("a unit of 50 ms, two workers: the driver's CPU", "≤ 10", double[1], "ms")


if __name__ == "__main__":
    main()
