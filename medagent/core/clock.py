"""The real time, for records about a run."""

from __future__ import annotations

from datetime import UTC, datetime


def wall_clock() -> str:
    """The real time for timestamps, in ISO format with seconds and zone."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
