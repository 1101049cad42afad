"""Why an item is wrong, as one of the kinds of failure. The first cause that applies is reported."""

from __future__ import annotations

from collections.abc import Sequence

from refsol.failures import Failure, failed_orders, failed_protocol, why
from refsol.history import HistoryMessage
from refsol.verdict import Verdict, show


def failure_of(
    verdict: Verdict,
    result: object,
    status: str | None = None,
    transcript: Sequence[HistoryMessage] = (),
    missing: Sequence[str] = (),
) -> Failure | None:
    """The failure of a wrong item. None if the item is right or was not graded.

    `status` is how the episode ended and `transcript` all its messages, if they are known. `missing` is the result of
    `unread`.
    """
    if verdict.correct is not False:
        return None
    failed = {check.name: check for check in verdict.checks if not check.passed}
    if "chart" in failed:
        return Failure("data", verdict.reason)
    if ended := failed_protocol(failed, status, transcript):
        return ended
    if missing:
        return Failure("reading-missed", f"never read {missing[0]}{_more(missing)}{why(verdict)}")
    if "readable" in failed:
        return Failure("order-wrong", verdict.reason, "readable")
    return failed_orders(verdict, failed) or Failure("wrong-value", f"answered {show(result)}{why(verdict)}")


def _more(missing: Sequence[str]) -> str:
    return f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
