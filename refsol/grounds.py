"""Whether a right item is *grounded*, because its agent read the deciding data, or *lucky*."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from refsol.history import HistoryMessage
from refsol.reads import reads_before_post
from refsol.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Grounds:
    """`grounded` is True for a right item whose agent read the deciding data, and False for any other graded item. It
    is None if nothing has to be read, nothing was graded, or the reads are unknown.

    `reading` is what was not read, or why `grounded` is None.
    """

    grounded: bool | None
    reading: str = ""


NO_READING = Grounds(None, "needs no reading")
"""The task's text has everything."""
UNKNOWN = Grounds(None, "unknown")
"""No transcript with reads is stored."""
NOT_GRADED = Grounds(None)


def grounds(verdict: Verdict, transcript: Sequence[HistoryMessage]) -> Grounds:
    """The grounds of an item. `transcript` is empty if none with reads is stored."""
    if verdict.correct is None:
        return NOT_GRADED
    if verdict.basis and not verdict.needed:
        return NO_READING
    if not transcript:
        return UNKNOWN
    if not verdict.correct:
        return Grounds(False)
    missing = unread(verdict, transcript)
    return Grounds(not missing, f"had not read {', '.join(missing)}" if missing else "")


def unread(verdict: Verdict, transcript: Sequence[HistoryMessage]) -> list[str]:
    """What an agent must have read before its first POST and did not read, as texts."""
    reads = reads_before_post(transcript)
    return [text for needed in verdict.needed for text in needed.unread(reads)]
