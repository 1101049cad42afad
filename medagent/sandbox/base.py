"""The terms of the package: limits, what code sees, what a program leaves, and what a sandbox is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol

from medagent.core.errors import MedagentError

MEGABYTE = 1_000_000
MAX_FRAME = 8 * MEGABYTE
"""Bytes of one request of a program, and of one reply to it."""

LimitName = Literal["seconds", "memory", "output", "requests", "processes"]
SandboxName = Literal["auto", "bwrap", "monty", "docker"]
Serve = Callable[[str, Sequence[Any], Mapping[str, Any]], Awaitable[Any]]
"""Serves a request: the function's name and its arguments, all of them JSON values; returns a JSON value. Raises
CallError for what the program is to see as an error.
"""


class CallError(MedagentError):
    """A request that failed; the program sees a RuntimeError with this text."""


class SandboxError(MedagentError):
    """The sandbox itself does not work (any more); no program is to blame."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the programs of one episode may take. The number of processes is always 1."""

    seconds: float = 30.0
    """Of one program; time spent waiting for the reply to a request is not counted."""
    memory: int = 512
    """Megabytes of the interpreter."""
    output: int = 20_000
    """Characters of a program's output that come back."""
    requests: int = 2_000
    """Requests of all programs of an episode."""

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Limits:
        """Those of a run's settings, by the names of its options."""
        return cls(*(settings[f"code-{name}"] for name in ("seconds", "memory", "output", "requests")))

    @property
    def words(self) -> str:
        """The limits in one line, as a score states them."""
        return (
            f"{self.seconds:g} s a program, {self.memory} MB, {self.output:,} characters, {self.requests:,} requests, "
            "1 process"
        )


@dataclass(frozen=True, slots=True)
class Surface:
    """What the code of an episode sees: functions, variables and a clock."""

    calls: tuple[str, ...]
    """Names of functions that are served by the caller's `Serve`."""
    now: datetime
    """What the clock says, always. Aware."""
    prelude: str = ""
    """Python that defines further functions by means of those; only what every sandbox supports."""
    variables: Mapping[str, Any] = field(default_factory=dict)
    """JSON values by name, set before the first program."""
    uncounted: tuple[str, ...] = ()
    """Those of `calls` that are no requests."""
    answer: str = ""
    """The variable whose value is read after each program; "": none."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A line of the agent's own in a traceback."""

    program: int
    line: int
    function: str
    source: str


@dataclass(frozen=True, slots=True)
class Failure:
    """What a program raised: its own lines, the outermost first, and the error's type and text."""

    frames: tuple[Frame, ...]
    what: str


@dataclass(frozen=True, slots=True)
class Ran:
    """What one program left."""

    output: str = ""
    """What it printed, and the value of a last expression; at most `Limits.output` characters."""
    cut: int = 0
    """Characters of the output that were cut."""
    failure: Failure | None = None
    limit: LimitName | None = None
    """The limit that the interpreter ran into."""
    ended: str = ""
    """Why the interpreter is gone; "" while it lives."""
    names: tuple[str, ...] = ()
    """The agent's variables after it."""
    answer: Any = None
    """The value of `Surface.answer`: JSON, or the `str` of another value."""


class Interpreter(Protocol):
    """One interpreter; it serves one episode, and once it has ended it runs nothing."""

    async def run(self, number: int, code: str, serve: Serve) -> Ran:
        """Run a program, whose number tracebacks name. What goes wrong is in the result; only cancellation, and what
        `serve` raises beside CallError, pass through.
        """
        ...

    async def close(self) -> None:
        """End it, whatever it does; nothing of it is left."""
        ...


class Interpreters(Protocol):
    """An open sandbox."""

    async def start(self, surface: Surface) -> Interpreter:
        """A fresh interpreter. Raises SandboxError where none starts."""
        ...


class Sandbox(Protocol):
    """A way to run code. A picklable description; `check` says whether it works here."""

    @property
    def name(self) -> str:
        """`bwrap`, `monty` or `docker`."""
        ...

    @property
    def install(self) -> str:
        """The command that installs it."""
        ...

    def version(self) -> str:
        """Its version and that of its Python. Raises SandboxError where it is not installed."""
        ...

    def open(self, limits: Limits, ahead: int) -> AbstractAsyncContextManager[Interpreters]:
        """Open it; about `ahead` interpreters are started before they are needed. Raises SandboxError."""
        ...
