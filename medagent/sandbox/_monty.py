"""pydantic-monty: an interpreter of a subset of Python, written in Rust, without any access to the machine.

It lacks `yield`, inheritance and most of the standard library. It works on machines that do not allow bubblewrap.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from medagent.sandbox.base import MAX_FRAME, MEGABYTE, Limits, SandboxError
from medagent.sandbox.interpreters import Interpreter, Interpreters, spawn

_SUSPENSIONS = 100_000_000
"""The worker's own limit of requests and name lookups; so high that ours is reached first."""
_BACKSTOP_SECONDS = 5.0
"""Seconds after the time limit of a program until a worker without its parent ends."""
INSIDE = Path(__file__).with_name("_monty_inside.py")


@dataclass(frozen=True, slots=True)
class Monty:
    """A sandbox by pydantic-monty."""

    packages: Path | None = None
    files: Path | None = None
    name: str = "monty"

    @property
    def install(self) -> str:
        """The command that installs it; empty if code needs what it does not have."""
        lacks = self.packages is not None or self.files is not None
        return "" if lacks else "pip install 'medagent[code]'"

    def version(self) -> str:
        """Its version and its Python's. Raises SandboxError if it is not installed."""
        try:
            if find_spec("pydantic_monty") is None:
                raise PackageNotFoundError
            return f"pydantic-monty {version('pydantic-monty')}"
        except PackageNotFoundError:
            raise SandboxError("pydantic-monty is not installed") from None

    @asynccontextmanager
    async def open(self, limits: Limits, ahead: int) -> AsyncIterator[Interpreters]:
        """Open it; about `ahead` interpreters are started before they are needed. Raises SandboxError."""
        self.version()
        if self.packages is not None:
            raise SandboxError("it cannot import packages; leave --code-packages out")
        if self.files is not None:
            raise SandboxError("it cannot read the files of a skill; use bwrap or docker")
        options = {
            "frame": MAX_FRAME,
            "memory": limits.memory * MEGABYTE,
            "output": limits.output,
            "seconds": limits.seconds + _BACKSTOP_SECONDS,
            "suspensions": _SUSPENSIONS,
        }
        command = [sys.executable, "-I", str(INSIDE), json.dumps(options)]

        async def start() -> Interpreter:
            return Interpreter(await spawn(command, {}), limits)

        async with Interpreters(start, ahead) as interpreters:
            yield interpreters
