"""The base of context managers that close at their end."""

from __future__ import annotations

from typing import Self


class Closing:
    """A context manager that calls `close` at its end."""

    def close(self) -> None:
        """Close what is open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
