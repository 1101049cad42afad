"""Chooses the sandbox of a run: the named one, or the first that passes its self-test. Without one no code runs."""

from __future__ import annotations

import asyncio
import secrets
import socket
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from medagent.core.errors import UserError
from medagent.sandbox._bwrap import Bwrap
from medagent.sandbox._docker import Docker
from medagent.sandbox._monty import Monty
from medagent.sandbox.base import Limits, SandboxError, SandboxName, Surface
from medagent.sandbox.interpreters import Interpreters
from medagent.sandbox.programs import Programs
from refsol.errors import Lines

Sandbox = Bwrap | Monty | Docker
"""A way to run code, as a description that can be pickled; `self_test` checks whether it works here."""
_TEST_LIMITS = Limits(seconds=10.0)


@dataclass(frozen=True, slots=True)
class SandboxChoice:
    """A sandbox that passed its self-test, as a picklable description, so that workers open the same one or fail."""

    name: str
    version: str
    limits: Limits
    packages: Path | None = None
    image: str | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    """Texts that code may read, by their paths below `base.FILES`."""

    @asynccontextmanager
    async def open(self, concurrency: int) -> AsyncIterator[Interpreters]:
        """Open it for `concurrency` episodes. Raises UserError if the version on this machine differs or is missing."""
        with _written(self.files) as folder:
            async with self._opened(folder, concurrency) as interpreters:
                yield interpreters

    @asynccontextmanager
    async def _opened(self, folder: Path | None, concurrency: int) -> AsyncIterator[Interpreters]:
        sandbox = next(sandbox for sandbox in sandboxes(self.packages, self.image, folder) if sandbox.name == self.name)
        problem = await self_test(sandbox)
        if problem is None and sandbox.version() != self.version:
            problem = f"the run uses {self.version}, and here is {sandbox.version()}"
        if problem is not None:
            raise UserError(f"--sandbox {self.name} cannot be used: {problem}{installed_by(sandbox)}")
        async with sandbox.open(self.limits, min(concurrency, 4)) as interpreters:
            yield interpreters


@contextmanager
def _written(files: Mapping[str, str]) -> Iterator[Path | None]:
    """A folder with these files, which everybody may read; None without any."""
    if not files:
        yield None
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        for path, text in files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        yield folder


def sandboxes(packages: Path | None = None, image: str | None = None, files: Path | None = None) -> Sequence[Sandbox]:
    """All sandboxes, in the order in which `auto` tries them. `files` is a folder that code may read."""
    return Bwrap(packages, files), Monty(packages, files), Docker(image, packages, files)


async def choose(
    name: SandboxName,
    limits: Limits,
    *,
    packages: Path | None = None,
    image: str | None = None,
    files: Mapping[str, str] | None = None,
) -> SandboxChoice:
    """The sandbox with this name, or with `auto` the first that works. Code in it may read `files`. Raises UserError,
    with one line per sandbox, if none works.
    """
    with _written(files or {}) as folder:
        return await _chosen(name, SandboxChoice("", "", limits, packages, image, files or {}), folder)


async def _chosen(name: SandboxName, choice: SandboxChoice, folder: Path | None) -> SandboxChoice:
    lines = []
    for sandbox in sandboxes(choice.packages, choice.image, folder):
        problem = await self_test(sandbox)
        if problem is None and name in ("auto", sandbox.name):
            return replace(choice, name=sandbox.name, version=sandbox.version())
        lines.append(
            f"  {sandbox.name}: works here; use --sandbox {sandbox.name}"
            if problem is None
            else f"  {sandbox.name}: {problem}{installed_by(sandbox)}"
        )
    reason = "no sandbox works here" if name == "auto" else f"--sandbox {name} does not work here"
    raise UserError(Lines("\n".join([f"{reason}, so no code is executed:", *lines])))


def installed_by(sandbox: Sandbox) -> str:
    """How to install a sandbox, as the end of a message; empty if that does not help."""
    return f". Install: {sandbox.install}" if sandbox.install else ""


async def self_test(sandbox: Sandbox) -> str | None:
    """Why a sandbox cannot be used here; None if it runs code, serves a request, and isolates the code."""
    try:
        await asyncio.to_thread(sandbox.version)
        async with sandbox.open(_TEST_LIMITS, 0) as interpreters:
            return await _tried(interpreters)
    except SandboxError as error:
        return str(error)


async def _tried(interpreters: Interpreters) -> str | None:
    secret = secrets.token_hex(16)

    async def echo(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return args

    with tempfile.NamedTemporaryFile("w") as file, socket.create_server(("127.0.0.1", 0)) as server:
        file.write(secret)
        file.flush()
        surface = Surface(("echo",), datetime(2020, 1, 1, tzinfo=UTC))
        async with Programs(interpreters, surface, _TEST_LIMITS, echo) as programs:
            ran = await programs.run("print(echo(6 * 7))")
            if ran.output != "[42]\n":
                return f"its self-test failed: {programs.text(ran)}"
            for deed, code in {
                "read a file of this machine": f"print(open({file.name!r}).read())",
                "start a process": f"import os\nos.fork()\nprint({secret!r})",
                "reach the network": (
                    f"import socket\nsocket.create_connection({server.getsockname()!r}, 2)\nprint({secret!r})"
                ),
            }.items():
                ran = await programs.run(code)
                if secret in ran.output or not (ran.failure or ran.ended):
                    return f"its self-test failed: code could {deed}"
    return None
