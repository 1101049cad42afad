"""The processes of interpreters, without a sandbox around them."""

from __future__ import annotations

import asyncio
import sys

from medagent.sandbox.base import Limits
from medagent.sandbox.interpreters import Interpreter, spawn

OUTLIVES = """
import subprocess, sys
child = [sys.executable, "-c", "import sys; print('here', flush=True); sys.stdin.read()"]
subprocess.Popen(child, start_new_session=True).wait()
"""
"""A process whose child, which has its pipes, is not in its process group: as bwrap, killed while it starts."""


def test_a_child_that_outlives_a_killed_process_does_not_keep_its_interpreter_open() -> None:
    async def closed() -> None:
        process = await spawn([sys.executable, "-c", OUTLIVES], {})
        assert process.stdout is not None
        assert await process.stdout.readline() == b"here\n"
        async with asyncio.timeout(60):
            await Interpreter(process, Limits()).close()
        assert process.returncode is not None

    asyncio.run(closed())
