"""Faults: injected errors in the replies of a double. They are the same for the FHIR and the model double."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

Kind = Literal["status", "delay", "drop", "truncate", "stale"]


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault: `on` is the path below the base (None: every path), `times` the number of further requests
    that get it (None: all).
    """

    kind: Kind
    on: str | None = None
    method: str | None = None
    times: int | None = 1
    status: int = 503
    retry_after: int | None = None
    seconds: float = 0.0

    def applies_to(self, method: str, path: str) -> bool:
        """Whether a request of this method to this path below the base gets the fault."""
        if self.kind == "stale" and method not in ("PUT", "PATCH", "DELETE"):
            return False
        if self.method is not None and self.method != method:
            return False
        return self.on is None or path == self.on or path.startswith(f"{self.on}/")


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply with its fault, which each adapter implements in its library's terms."""

    status: int
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""
    delay: float = 0.0
    """Seconds before the first byte."""
    lost: Literal["", "dropped", "truncated"] = ""
    """Dropped: the connection closes without an answer. Truncated: it closes in the middle of the body."""


Handler = Callable[[str, str, Iterable[tuple[str, str]], bytes], Answer]
"""The function that adapters call: method, URL, headers and body of a request → its reply."""


class Faults:
    """The remaining faults. A double is one."""

    def __init__(self) -> None:
        super().__init__()
        self._faults: list[Fault] = []

    def fail(
        self,
        on: str | None = None,
        *,
        status: int = 503,
        times: int | None = 1,
        method: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        """Answer with an error status instead; `retry_after` is its Retry-After header in seconds.

        `on` is a path below the base such as "Observation" or "Patient/1" (with all that lies below it), None every
        path; `times=None` means from now on.
        """
        self._faults.append(Fault("status", on, method, times, status, retry_after))

    def delay(self, seconds: float, on: str | None = None, *, times: int | None = 1, method: str | None = None) -> None:
        """Answer late. On a port the reply takes that long. In process nothing waits: a client with a shorter timeout
        gets its timeout error immediately, any other client its reply.
        """
        self._faults.append(Fault("delay", on, method, times, seconds=seconds))

    def drop(self, on: str | None = None, *, times: int | None = 1, method: str | None = None) -> None:
        """Close the connection without a reply. The request is carried out, as can happen with a real server."""
        self._faults.append(Fault("drop", on, method, times))

    def truncate(self, on: str | None = None, *, times: int | None = 1, method: str | None = None) -> None:
        """Close the connection in the middle of the body."""
        self._faults.append(Fault("truncate", on, method, times))

    def _take(self, method: str, path: str) -> Fault | None:
        """The first fault for a request; its `times` is reduced by one."""
        for number, fault in enumerate(self._faults):
            if fault.applies_to(method, path):
                if fault.times is not None:
                    left = replace(fault, times=fault.times - 1)
                    self._faults[number : number + 1] = [left] if left.times else []
                return fault
        return None


def spoiled(answer: Answer, fault: Fault | None) -> Answer:
    """The reply with a fault of the connection; the double itself applies faults that change the content."""
    if fault is None:
        return answer
    match fault.kind:
        case "delay":
            return replace(answer, delay=fault.seconds)
        case "drop":
            return replace(answer, lost="dropped")
        case "truncate":
            return replace(answer, lost="truncated")
        case _:
            return answer
