"""Whether an answer is right: what is decided without a judge, and how the judge's replies are read.

`published` and `paper` make two calls per row (normalize, then judge), `a2a` makes one. The caller makes the calls and
passes the replies; None means that a call failed or its reply has no text.
"""

from __future__ import annotations

import math
import re
from typing import Any, Literal

from refsol.fhiragentbench._questions import NO_ANSWER
from refsol.fhiragentbench.retrieval import RuleName

Correct = Literal[0, 1]

ANSWERED = "question answered"
"""The result of a failed normalizing call."""
OVER_CAP = "Input tokens exceeded"
"""An answer contains this text if the episode's input exceeded the cap."""
OUT_OF_TURNS = "No final answer reached within iteration limit"
"""An answer of the published strategies begins with this text if all turns were used."""

_PUNCTUATION = re.compile(r"[^\w\s]")


def is_null(value: Any) -> bool:
    """Whether a cell is empty: null or NaN."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def is_error(error: Any, rules: RuleName = "published") -> bool:
    """Whether a row's `error` says that the episode failed."""
    if is_null(error):
        return False
    if rules == "a2a":
        return bool(error)
    return not (isinstance(error, str) and (not error.strip() or error == "nan"))


def normalized(reply: str | None) -> str:
    """The reply of the normalizing call, without white space at its ends."""
    return ANSWERED if reply is None else reply.strip()


def is_no_answer(normal: str) -> bool:
    """Whether the normalizing call found that the agent gave no answer."""
    return _PUNCTUATION.sub("", normal).strip().lower() == NO_ANSWER


def settle(answer: Any, error: Any, true_answer: str, normal: str, rules: RuleName = "published") -> Correct | None:
    """Whether a row is right, if that can be decided without the judge's second call. None if it cannot.

    `true_answer` is the one that the judge is shown. `normal` is the result of the normalizing call (unused in `a2a`).
    """
    if is_error(error, rules):
        return 0
    if rules == "a2a":
        return None if answer and not is_null(answer) else 0
    if not is_null(answer) and not _can_be_searched(answer):
        return 0
    if isinstance(answer, str) and OVER_CAP in answer:
        return 0
    if true_answer == NO_ANSWER and is_no_answer(normal):
        return 1
    return 0 if is_null(answer) else None


def read_judge(reply: str | None, rules: RuleName = "published") -> Correct | None:
    """Read the judge's reply: 1 or 0. None if it is neither, so that the call must be repeated.

    `a2a` makes one call, and any reply except 1 is 0. A failed call is 0.
    """
    if reply is None:
        return 0
    if rules == "a2a":
        return 1 if reply.strip() == "1" else 0
    stated = reply.strip().strip("'")
    if stated == "1":
        return 1
    return 0 if stated == "0" else None


def _can_be_searched(answer: Any) -> bool:
    """Whether the published evaluator can search a text in the answer: not in numbers, nor in lists of several."""
    return isinstance(answer, str | dict) or (isinstance(answer, list) and len(answer) == 1)
