"""The benchmark's clock: it is always the same moment."""

from __future__ import annotations

from datetime import UTC, datetime

NOW_TEXT = "2023-11-13T10:15:00+00:00"
NOW = datetime.fromisoformat(NOW_TEXT)


def wall_clock() -> str:
    """The real time, for timestamps of what was run, in ISO form with seconds and zone."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
