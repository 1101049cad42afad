"""A scheduler and workers of Dask in processes of their own, with environments and working folders of their own.

    with dask("both", "tcp://", cwd=folder, env={...}) as part:
        medagent("run", "--cluster", part.address, ...)

`part.process` may be killed. The program that the process runs is this file's.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_PRIVATE = ("OPENAI_", "ANTHROPIC_", "MEDAGENT_")


@dataclass(frozen=True)
class Part:
    """A process, its working folder, and the address that it named."""

    process: subprocess.Popen[str]
    folder: Path
    address: str


@contextmanager
def dask(kind: str, where: str, *without: str, cwd: Path, env: Mapping[str, str] | None = None) -> Iterator[Part]:
    """A `scheduler` or `both` at a protocol (`tcp://`), or a `worker` of a scheduler's address, until the block ends.

    Its environment is this one's without keys and settings of medagent's, and `env`; modules named in `without` cannot
    be imported there.
    """
    clean = {name: value for name, value in os.environ.items() if not name.startswith(_PRIVATE)}
    command = [sys.executable, "-P", __file__, kind, where, *without]
    with subprocess.Popen(command, cwd=cwd, env={**clean, **(env or {})}, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield Part(process, cwd, process.stdout.readline().strip())
        finally:
            process.kill()


async def _run(kind: str, where: str) -> None:
    from distributed import Scheduler, Worker

    if kind == "worker":
        async with Worker(where, nthreads=4, host="127.0.0.1", dashboard=False) as worker:
            print(worker.address, flush=True)
            await worker.finished()
        return
    async with Scheduler(protocol=where, host="127.0.0.1", port=0, dashboard_address="127.0.0.1:0") as scheduler:
        if kind == "both":
            async with Worker(scheduler.address, nthreads=4, host="127.0.0.1", dashboard=False):
                print(scheduler.address, flush=True)
                await scheduler.finished()
        print(scheduler.address, flush=True)
        await scheduler.finished()


if __name__ == "__main__":
    import logging

    logging.disable(logging.CRITICAL)
    for name in sys.argv[3:]:
        sys.modules[name] = None  # type: ignore[assignment]  # how Python is told that a module is not there
    asyncio.run(_run(sys.argv[1], sys.argv[2]))
