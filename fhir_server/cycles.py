"""Python's search for cycles, where there are none: it would take a tenth of a request's time, a thirtieth of an
import's.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


def look_seldom_for_cycles() -> None:
    """For a server process: a request makes many small objects and no cycles."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    gc.enable()


@contextmanager
def no_search_for_cycles() -> Iterator[None]:
    """For work that makes many objects that stay until its end."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
