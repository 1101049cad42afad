"""Why an item is wrong: one kind of a fixed list, from the verdict, the end of the episode, and what was not read."""

from __future__ import annotations

from collections.abc import Sequence

from refsol.failures import Failure, failed_orders, failed_protocol, why
from refsol.history import HistoryMessage
from refsol.verdict import Verdict, show


def failure_of(
    verdict: Verdict, answer: object, status: str, transcript: Sequence[HistoryMessage], missing: Sequence[str]
) -> Failure | None:
    """The failure of a wrong item. None if the item is right or was not graded.

    `status` is how the episode ended, `missing` what the agent had not read.
    """
    if verdict.correct is not False:
        return None
    failed = {check.name: check for check in verdict.checks if not check.passed}
    if ended := failed_protocol(failed, status, transcript):
        return ended
    if missing:
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        return Failure("reading-missed", f"never read {missing[0]}{more}{why(verdict)}")
    orders = failed_orders(verdict, failed, transcript)
    return orders or Failure("wrong-value", f"answered {show(answer)}{why(verdict)}")
