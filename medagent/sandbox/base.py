"""The types of the package: limits, the surface that code sees, and a program's result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from medagent.core.errors import MedagentError

MEGABYTE = 1_000_000
FILES = "/skills"
"""The read-only folder of the files that code may read."""
MAX_FRAME = 8 * MEGABYTE
"""Bytes of one request of a program, and of one reply to it."""

LimitName = Literal["seconds", "memory", "output", "requests", "processes"]
SandboxName = Literal["auto", "bwrap", "monty", "docker"]
Serve = Callable[[str, Sequence[Any], Mapping[str, Any]], Awaitable[Any]]
"""Serves a request: takes the function's name and its arguments, all JSON values, and returns a JSON value. Raises
CallError for errors that the program sees.
"""


class CallError(MedagentError):
    """A failed request; the program sees a RuntimeError with this text."""


class SandboxError(MedagentError):
    """The sandbox itself does not work; the error is not caused by a program."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of the programs of one episode. The number of processes is always 1."""

    seconds: float = 30.0
    """Seconds per program, without the time spent waiting for replies."""
    memory: int = 512
    """Megabytes of the interpreter."""
    output: int = 20_000
    """Characters of a program's output that are returned."""
    requests: int = 2_000
    """Requests of all programs of an episode."""

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Limits:
        """The limits in a run's settings, by the names of its options."""
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
    """The names that the code of an episode can use: functions, variables and a clock."""

    calls: tuple[str, ...]
    """Names of functions that are served by the caller's `Serve`."""
    now: datetime
    """The constant time of the clock, with a time zone."""
    prelude: str = ""
    """Python that defines further functions with `calls`; it uses only features that every sandbox supports."""
    variables: Mapping[str, Any] = field(default_factory=dict)
    """JSON values by name, set before the first program."""
    uncounted: tuple[str, ...] = ()
    """The `calls` that do not count as requests."""
    answer: str = ""
    """The name of the variable that is read after each program; "": none."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A line of the agent's code in a traceback."""

    program: int
    line: int
    function: str
    source: str


@dataclass(frozen=True, slots=True)
class Failure:
    """An error that a program raised: the program's lines, the outermost first, and the error's type and text."""

    frames: tuple[Frame, ...]
    what: str


@dataclass(frozen=True, slots=True)
class Ran:
    """The result of one program."""

    output: str = ""
    """The printed text and the value of a last expression; at most `Limits.output` characters."""
    cut: int = 0
    """Characters of the output that were cut."""
    failure: Failure | None = None
    limit: LimitName | None = None
    """The limit that the interpreter reached."""
    ended: str = ""
    """Why the interpreter ended; "" while it runs."""
    names: tuple[str, ...] = ()
    """The agent's variables after the program."""
    answer: Any = None
    """The value of the variable `Surface.answer`: JSON, or the `str` of another value."""
