"""Times, and distances between them, as text."""

from __future__ import annotations

from datetime import datetime, timedelta


def shown_time(stored: str) -> str:
    """A stored time as a chart shows it: `2023-11-13T05:35:00+00:00` is `2023-11-13 05:35`."""
    day, _, time = stored.partition("T")
    return f"{day} {time[:5]}".strip()


def distance_words(time: datetime, now: datetime) -> str:
    """`5 h before now`; in days from two days on. For a time without a zone, only `a time without a zone`."""
    if time.tzinfo is None:
        return "a time without a zone"
    passed = now - time
    side = "before" if passed >= timedelta(0) else "after"
    passed = abs(passed)
    return f"{length_words(passed)} {side} now"


def length_words(length: timedelta) -> str:
    """A length of time in its largest unit: minutes, hours from one hour on, days from two days on."""
    if length < timedelta(hours=1):
        return f"{length // timedelta(minutes=1)} min"
    if length < timedelta(days=2):
        return f"{length // timedelta(hours=1)} h"
    return f"{length // timedelta(days=1)} days"


def margin_words(time: datetime, limit: datetime) -> str:
    """The distance of a time from a limit in hours and minutes, if less than two days: ` by 3 h 12 min`."""
    margin = abs(time - limit)
    if margin >= timedelta(days=2):
        return ""
    hours, rest = divmod(margin, timedelta(hours=1))
    return f" by {hours} h {rest // timedelta(minutes=1)} min"
