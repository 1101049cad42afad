"""What an expression may cost: steps, which all expressions of one request share, and sizes of texts and numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from fhir_server.bounds import Meter
from fhir_server.expressions.errors import TooCostlyError

MAX_STEPS = 300_000
"""The steps of all expressions of one request (about 0.3 s). R4's own expressions take a few hundred for a resource."""
MAX_TEXT = 1_000_000
"""The most characters of a text that an expression builds."""
CHARACTERS = 100
"""The characters that can be read in one step."""


class Budget:
    """The steps that are left. `meter` measures the request, if it is limited: it can end it between two steps."""

    __slots__ = ("left", "meter")

    def __init__(self, meter: Meter | None = None, steps: int = MAX_STEPS) -> None:
        self.left = steps
        self.meter = meter

    def spend(self, steps: int) -> None:
        """Subtracts steps. Raises TooCostlyError if too few are left, and the error of a request that has ended."""
        self.left -= steps
        if self.left < 0:
            raise TooCostlyError("the expression takes too many steps")
        if self.meter is not None:
            self.meter.check()

    def read(self, text: str) -> None:
        """Subtracts the steps for reading a text."""
        self.spend(len(text) // CHARACTERS)

    def build(self, characters: int) -> None:
        """Subtracts the steps for a text that will be built. Raises TooCostlyError if it would be too long."""
        if characters > MAX_TEXT:
            raise TooCostlyError(f"the expression builds a text of more than {MAX_TEXT:,} characters")
        self.spend(characters // CHARACTERS)


_request: ContextVar[Budget | None] = ContextVar("_request", default=None)


def budget() -> Budget:
    """The budget of the current request; outside a request, a new one."""
    return _request.get() or Budget()


@contextmanager
def one_budget(meter: Meter | None) -> Iterator[None]:
    """All expressions that are evaluated inside share one budget. `meter` measures the request, if it is limited."""
    token = _request.set(Budget(meter))
    try:
        yield
    finally:
        _request.reset(token)
