"""Whether a right item is right for the right reason: what every benchmark over a chart says beside a verdict.

A right item is *grounded* if its agent had read what decides before it acted, and *lucky* if it had not. What decides
is the benchmark's; what counts as read is in `reads` and `replies`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from refsol.history import HistoryMessage
from refsol.reads import Read
from refsol.replies import reads_before_post

Unread = Callable[[Sequence[Read]], Sequence[str]]
"""What of the deciding data is not among some reads, in words."""


@dataclass(frozen=True, slots=True)
class Grounds:
    """`grounded` is True for a right item whose agent had read what decides, False for any other right or wrong item,
    and None if that is no question: nothing has to be read, nothing was graded, or it cannot be told.

    `reading` says what was not read, or why `grounded` is None.
    """

    grounded: bool | None
    reading: str = ""


NO_READING = Grounds(None, "needs no reading")
"""The task's text says everything."""
UNKNOWN = Grounds(None, "cannot be told")
"""No transcript with reads is kept."""
NOT_GRADED = Grounds(None)


def grounds_of(correct: bool | None, unread: Unread | None, transcript: Sequence[HistoryMessage]) -> Grounds:
    """The grounds of an item; `unread` is None if nothing has to be read, `transcript` is empty if none is kept."""
    if correct is None:
        return NOT_GRADED
    if unread is None:
        return NO_READING
    if not transcript:
        return UNKNOWN
    if not correct:
        return Grounds(False)
    missing = unread(reads_before_post(transcript))
    return Grounds(not missing, f"had not read {', '.join(missing)}" if missing else "")
