"""Why an item is wrong: one kind of a fixed list, from the verdict, the end of the episode, and what was not read."""

from __future__ import annotations

from collections.abc import Sequence

from refsol.clinical.known import Missed
from refsol.failures import Failure, failed_orders, failed_protocol, why
from refsol.history import HistoryMessage
from refsol.verdict import Verdict, show


def failure_of(
    verdict: Verdict,
    answer: object,
    status: str | None = None,
    transcript: Sequence[HistoryMessage] = (),
    missed: Missed | None = None,
) -> Failure | None:
    """The failure of a wrong item. None if the item is right or was not graded.

    `status` is how the episode ended and `transcript` all its messages, if an episode is known. `missed` is what its
    agent had not read.
    """
    if verdict.correct is not False:
        return None
    failed = {check.name: check for check in verdict.checks if not check.passed}
    if verdict.because is None:
        return Failure("data", verdict.reason)
    if ended := failed_protocol(failed, status, transcript):
        return ended
    if missed is not None:
        return Failure("page-not-opened" if missed.page else "reading-missed", f"{missed.words}{why(verdict)}")
    if "readable" in failed:
        return Failure("order-wrong", verdict.reason, "readable")
    return failed_orders(verdict, failed) or Failure("wrong-value", f"answered {show(answer)}{why(verdict)}")
