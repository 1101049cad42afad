"""The task's now, read from its context."""

from __future__ import annotations

import re
from datetime import datetime

_TIME = r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?[+-]\d{2}:\d{2}"
_STATED = re.compile(rf"it'?s\s+({_TIME})\s*now\b", re.IGNORECASE)
_ANY = re.compile(_TIME)


def stated_now(context: str) -> datetime | None:
    """The time in the first `It's … now`, otherwise the last time in the context. None if there is no valid time."""
    phrase = _STATED.search(context)
    times = [phrase[1]] if phrase else _ANY.findall(context)
    try:
        return datetime.fromisoformat(times[-1]) if times else None
    except ValueError:
        return None
