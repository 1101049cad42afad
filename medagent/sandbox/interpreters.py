"""Interpreters, each in its own process behind a pipe of frames: four bytes of length (big-endian), then JSON.

The process is not trusted. A frame ends the interpreter if it is too long, is not JSON, belongs to another program, or
is neither a request nor the end of a program. There is one request at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from medagent.sandbox.base import (
    MAX_FRAME,
    MEGABYTE,
    CallError,
    Failure,
    Frame,
    LimitName,
    Limits,
    Ran,
    SandboxError,
    Serve,
    Surface,
)
from medagent.sandbox.wording import FORGED, crash_reason, stop_reason

START_SECONDS = 20.0
"""Seconds in which an interpreter must report that it is ready; no program runs before."""
_EXIT_SECONDS = 2.0
_REASON = 300
_HEADER = 4
INSIDE = Path(__file__).with_name("_inside.py")

_Text = Annotated[str, Field(max_length=2_000)]


class _Frame(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Call(_Frame):
    program: int
    call: str
    args: list[Any]
    kwargs: dict[str, Any]


class _Failure(_Frame):
    frames: Annotated[list[tuple[int, int, _Text, _Text]], Field(max_length=20)]
    what: _Text


class _Done(_Frame):
    program: int
    output: str
    cut: Annotated[int, Field(ge=0)]
    failure: _Failure | None
    limit: Literal["seconds", "memory", "processes"] | None
    names: Annotated[list[_Text], Field(max_length=100)]
    answer: Any


_SENT: TypeAdapter[_Call | _Done] = TypeAdapter(_Call | _Done)


class _LostError(Exception):
    """The interpreter must be ended."""

    def __init__(self, reason: str, limit: LimitName | None = None) -> None:
        self.reason = reason
        self.limit = limit


def start_up(limits: Limits, *, files: int, processes: int | None = None, packages: Sequence[str] = ()) -> list[str]:
    """The arguments of a Python that runs the start-up code; see `inside.restrict`. `files` is in bytes."""
    options = {
        "frame": MAX_FRAME,
        "memory": limits.memory * MEGABYTE,
        "output": limits.output,
        "files": files,
        "processes": processes,
        "packages": list(packages),
    }
    return ["-sSPB", "-c", INSIDE.read_text(encoding="utf-8"), json.dumps(options)]


async def spawn(command: Sequence[str], environment: dict[str, str], descriptors: Sequence[int] = ()) -> Process:
    """Start a process with pipes for the frames. Raises SandboxError if it cannot be started."""
    try:
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=environment,
            pass_fds=descriptors,
            start_new_session=True,
        )
    except OSError as error:
        raise SandboxError(f"{command[0]} cannot be started: {error.strerror}") from None


class Interpreter:
    """One interpreter for one episode. After its end it cannot run anything. `end` is awaited after the process was
    killed, to end what may outlive it.
    """

    def __init__(self, process: Process, limits: Limits, end: Callable[[], Awaitable[None]] | None = None) -> None:
        self._process = process
        self._limits = limits
        self._end = end
        self._names: tuple[str, ...] = ()

    async def begin(self, surface: Surface) -> None:
        """Create the names that the code can use. Raises SandboxError if the interpreter does not start."""
        setup = {
            "calls": list(surface.calls),
            "now": surface.now.isoformat(),
            "prelude": surface.prelude,
            "variables": dict(surface.variables),
            "answer": surface.answer,
        }
        try:
            async with asyncio.timeout(START_SECONDS):
                await self._write(_encoded(setup))
                ready = json.loads(await self._receive())
        except (TimeoutError, _LostError, OSError, asyncio.IncompleteReadError, ValueError):
            ready = None
        if ready != {"ready": True}:
            words = (await self.close()).decode(errors="replace").strip().splitlines()
            status = f"exit status {self._process.returncode}"
            raise SandboxError(f"its Python did not start ({words[-1][:_REASON] if words else status})")

    async def run(self, number: int, code: str, serve: Serve) -> Ran:
        """Run a program; tracebacks name its number. Errors are in the result; only cancellation and errors of `serve`
        other than CallError are raised.
        """
        try:
            done = await self._run(number, code, serve)
        except _LostError as lost:
            return await self._gone(lost.reason, lost.limit)
        failure = None
        if done.failure is not None:
            failure = Failure(tuple(Frame(*frame) for frame in done.failure.frames), done.failure.what)
        if done.limit is not None:
            return await self._gone(stop_reason(done.limit, self._limits), done.limit, done.output)
        self._names = tuple(done.names)
        output, cut = done.output[: self._limits.output], done.cut
        return Ran(output, cut, failure, "output" if cut else None, "", self._names, done.answer)

    async def close(self) -> bytes:
        """End it, even while it runs a program, and all processes that it started. Returns what it wrote to standard
        error before it was ready.
        """
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        if self._end is not None:
            await self._end()
        # A sandbox that is killed while it starts can leave its Python alive, which ends with its input. It holds the
        # pipes until then.
        assert self._process.stdin is not None
        self._process.stdin.close()
        with contextlib.suppress(OSError):
            # Some versions of asyncio wait for the end of the pipes; a full pipe must be read until then.
            return (await self._process.communicate())[1]
        return b""

    async def _run(self, number: int, code: str, serve: Serve) -> _Done:
        left = self._limits.seconds
        message: dict[str, Any] = {"program": number, "code": code}
        while True:
            began = time.monotonic()
            sent = await self._exchange(message, left)
            left -= time.monotonic() - began
            if sent.program != number:
                raise _LostError(FORGED)
            if isinstance(sent, _Done):
                return sent
            try:
                message = {"value": await serve(sent.call, sent.args, sent.kwargs)}
            except CallError as error:
                message = {"error": str(error)}

    async def _exchange(self, message: dict[str, Any], seconds: float) -> _Call | _Done:
        """Send a frame and return the next one. Raises _LostError. It does not call `serve`."""
        try:
            async with asyncio.timeout(seconds):
                await self._send(message)
                return _read(await self._receive())
        except TimeoutError:
            raise _LostError(stop_reason("seconds", self._limits), "seconds") from None
        except (OSError, asyncio.IncompleteReadError):
            raise _LostError(crash_reason(await self._status())) from None

    async def _gone(self, reason: str, limit: LimitName | None, output: str = "") -> Ran:
        await self.close()
        return Ran(output[: self._limits.output], limit=limit, ended=reason, names=self._names)

    async def _status(self) -> int | None:
        """The exit status of a process whose pipe has ended; None if it does not exit."""
        try:
            async with asyncio.timeout(_EXIT_SECONDS):
                return await self._process.wait()
        except TimeoutError:
            return None

    async def _send(self, value: dict[str, Any]) -> None:
        data = _encoded(value)
        if len(data) > MAX_FRAME:
            limit = f"the reply is over {MAX_FRAME // MEGABYTE} MB; ask for less"
            data = _encoded({"error": limit})
        await self._write(data)

    async def _write(self, data: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(len(data).to_bytes(_HEADER, "big") + data)
        await self._process.stdin.drain()

    async def _receive(self) -> bytes:
        assert self._process.stdout is not None
        length = int.from_bytes(await self._process.stdout.readexactly(_HEADER), "big")
        if length > MAX_FRAME:
            raise _LostError(FORGED)
        return await self._process.stdout.readexactly(length)


class Interpreters:
    """An open sandbox, an async context manager. It keeps about `count` started interpreters ready for episodes."""

    def __init__(self, spawn: Callable[[], Coroutine[Any, Any, Interpreter]], count: int) -> None:
        self._spawn = spawn
        self._count = count
        self._starting: deque[asyncio.Task[Interpreter]] = deque()

    async def start(self, surface: Surface) -> Interpreter:
        """A fresh interpreter: the oldest waiting one, for which a replacement is started. Raises SandboxError."""
        while len(self._starting) <= self._count:
            self._starting.append(asyncio.create_task(self._spawn()))
        interpreter = await self._starting.popleft()
        try:
            await interpreter.begin(surface)
        except asyncio.CancelledError:
            await interpreter.close()
            raise
        return interpreter

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        starting, self._starting = self._starting, deque()
        for interpreter in await asyncio.gather(*starting, return_exceptions=True):
            if not isinstance(interpreter, BaseException):
                await interpreter.close()


def _encoded(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _read(data: bytes) -> _Call | _Done:
    try:
        return _SENT.validate_json(data)
    except ValidationError:
        raise _LostError(FORGED) from None
