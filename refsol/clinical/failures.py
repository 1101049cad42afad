"""Why an item is wrong: one kind of a fixed list, from the verdict, the end of the episode, and what was not read."""

from __future__ import annotations

from collections.abc import Sequence

from refsol.failures import Failure, failed_orders, failed_protocol, why
from refsol.grounds import unread
from refsol.history import HistoryMessage
from refsol.verdict import Verdict, show


def failure_of(
    verdict: Verdict, answer: object, status: str | None = None, transcript: Sequence[HistoryMessage] = ()
) -> Failure | None:
    """The failure of a wrong item. None if the item is right or was not graded.

    `status` is how the episode ended and `transcript` all its messages, if an episode is known.
    """
    if verdict.correct is not False:
        return None
    failed = {check.name: check for check in verdict.checks if not check.passed}
    if verdict.because is None:
        return Failure("data", verdict.reason)
    if ended := failed_protocol(failed, status, transcript):
        return ended
    if missing := unread(verdict, transcript) if status else []:
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        return Failure("reading-missed", f"never read {missing[0]}{more}{why(verdict)}")
    if "readable" in failed:
        return Failure("order-wrong", verdict.reason, "readable")
    return failed_orders(verdict, failed) or Failure("wrong-value", f"answered {show(answer)}{why(verdict)}")
