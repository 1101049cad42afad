"""How far a moment is from now, in words."""

from __future__ import annotations

from datetime import datetime, timedelta


def distance_words(time: datetime, now: datetime) -> str:
    """`5 h before now`; days from two days on. A time without a zone is only called so."""
    if time.tzinfo is None:
        return "a time without a zone"
    passed = now - time
    side = "before" if passed >= timedelta(0) else "after"
    passed = abs(passed)
    if passed < timedelta(hours=1):
        return f"{passed // timedelta(minutes=1)} min {side} now"
    if passed < timedelta(days=2):
        return f"{passed // timedelta(hours=1)} h {side} now"
    return f"{passed // timedelta(days=1)} days {side} now"
