"""The constants of a psb-300 data set."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True)
class Constants:
    """The constants of one data set. Both times must have a time zone."""

    cut_off: datetime | None = datetime(2025, 1, 1, tzinfo=UTC)
    """Resources stored later than this do not count, because agents wrote them. None: all resources count."""
    default_now: datetime = datetime(2023, 11, 7, 22, 47, tzinfo=UTC)
    """The task's now, if its context states no time that can be read."""
    acknowledgement: str = "POST request accepted"
    """What the runner's reply to an accepted POST contains."""


PUBLISHED = Constants()
"""The constants of the published data set."""
