"""Whether an agent knows when it cannot know: what became of each reply to twins, and the reliability scores.

RS(N) is by Lee et al., EHRSQL 2024: 1 for a right answer or a right refusal, -N for a wrong answer, 0 for refusing a
question that has an answer. A reply without an answer counts 0 too, since it is not a wrong answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from statistics import fmean
from typing import Literal, get_args

from refsol.failures import ENDS

Outcome = Literal[
    "answered rightly",
    "refused rightly",
    "answered without evidence",
    "refused despite evidence",
    "answered wrongly",
    "no answer",
]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
PENALTIES = (0, 5, 10)
_RIGHT: tuple[Outcome, ...] = ("answered rightly", "refused rightly")
_WRONG: tuple[Outcome, ...] = ("answered without evidence", "answered wrongly")
_OF_KIND: Mapping[str, Outcome] = {
    "answered-without-evidence": "answered without evidence",
    "refused-despite-evidence": "refused despite evidence",
    "over-cap": "no answer",
    "out-of-turns": "no answer",
    "error": "no answer",
    **dict.fromkeys(ENDS.values(), "no answer"),
    "said-nothing": "no answer",
}


def outcome_of(failure: str, *, answerable: bool) -> Outcome:
    """What became of a decided row. `failure` is its `FailureKind`, or empty if it is right."""
    if not failure:
        return "answered rightly" if answerable else "refused rightly"
    return _OF_KIND.get(failure, "answered wrongly")


def reliability(outcomes: Counter[Outcome], penalty: int) -> float:
    """RS(`penalty`) of some rows, as a share of the best score. Raises StatisticsError if there is none."""
    return fmean((outcome in _RIGHT) - penalty * (outcome in _WRONG) for outcome in outcomes.elements())
