"""How long work tells its progress to whoever shows it."""

from __future__ import annotations

from collections.abc import Callable

Tell = Callable[[int, int], None]
"""Gets the number of finished items and of all items."""


def untold(done: int, total: int) -> None:
    """Shows no progress."""
