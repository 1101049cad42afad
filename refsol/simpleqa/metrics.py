"""The scores of a set of verdicts, and the calibration of the model's stated confidence.

A `Tally` counts the outcome of every row. Figures are computed from it and never stored. Rows without a label stay in
the denominator, so an unreadable judge reply lowers the score and is not lost.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from refsol.simpleqa.replies import last_object
from refsol.stats import Interval, clustered_wilson

Treatment = Literal["left out", "as not attempted", "as wrong"]
BINS = 10


@dataclass(frozen=True, slots=True)
class Tally:
    """The number of rows per outcome.

    `unscored` rows were judged but are without a label; they count in the denominator. The last four do not count: the
    rule `husimpleqa` leaves out `left_out`; a call failed for `judge_errors` and `unanswered`, and a failed call is
    never a grade; no judge was called for `not_judged`.
    """

    correct: int = 0
    incorrect: int = 0
    not_attempted: int = 0
    unscored: int = 0
    left_out: int = 0
    judge_errors: int = 0
    unanswered: int = 0
    not_judged: int = 0

    @property
    def count(self) -> int:
        """N, the denominator."""
        return self.correct + self.incorrect + self.not_attempted + self.unscored

    @property
    def attempted(self) -> int:
        """The number of rows judged right or wrong."""
        return self.correct + self.incorrect

    @property
    def correct_given_attempted(self) -> float:
        """c / (c + i); 0 if nothing was attempted."""
        return share(self.correct, self.attempted)

    @property
    def f_score(self) -> float:
        """2c / (2(c + i) + n), SimpleQA's F (Wei et al. 2024, section 3); 0 if there are no labels."""
        return share(2 * self.correct, 2 * self.attempted + self.not_attempted)

    def treated(self, treatment: Treatment) -> Tally:
        """The same rows with the unscored ones left out, counted as not attempted, or counted as wrong."""
        match treatment:
            case "left out":
                return replace(self, unscored=0, left_out=self.left_out + self.unscored)
            case "as not attempted":
                return replace(self, unscored=0, not_attempted=self.not_attempted + self.unscored)
            case "as wrong":
                return replace(self, unscored=0, incorrect=self.incorrect + self.unscored)


def share(part: int, whole: int) -> float:
    """`part / whole`; 0 if `whole` is 0."""
    return part / whole if whole else 0.0


@dataclass(frozen=True, slots=True)
class Bounds:
    """95% intervals of the shares of a tally. Rows about one question (several trials or languages) are not
    independent, so the question is a cluster (`refsol.stats.clustered_wilson`).
    """

    correct: Interval
    incorrect: Interval
    not_attempted: Interval
    correct_given_attempted: Interval


def bounds_of(questions: Mapping[Tally, int]) -> Bounds:
    """The intervals over questions: `questions` counts the questions by the tally of their rows."""

    def interval(pair: Callable[[Tally], tuple[int, int]]) -> Interval:
        kinds: Counter[tuple[int, int]] = Counter()
        for tally, times in questions.items():
            kinds[pair(tally)] += times
        return clustered_wilson(kinds)

    return Bounds(
        interval(lambda tally: (tally.correct, tally.count)),
        interval(lambda tally: (tally.incorrect, tally.count)),
        interval(lambda tally: (tally.not_attempted, tally.count)),
        interval(lambda tally: (tally.correct, tally.attempted)),
    )


@dataclass(frozen=True, slots=True)
class Bin:
    """One row of the reliability table: confidences in [low, high), the last bin closed; all are shares (0 to 1)."""

    low: float
    high: float
    count: int
    confidence: float
    accuracy: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """How well the stated confidence predicts a right answer, over the attempted rows; shares (0 to 1).

    `brier` is the mean squared error (Brier 1950). `ece` is the expected calibration error over ten bins of equal width
    (Naeini et al. 2015). Both are None if no attempted row states a confidence. `left_out` counts the attempted rows
    without a confidence from 0 to 100. `bins` contains only bins with rows.
    """

    count: int
    left_out: int
    brier: float | None
    ece: float | None
    bins: tuple[Bin, ...]


def calibrate(attempted: Iterable[tuple[float | None, bool]]) -> Calibration:
    """The calibration of pairs (confidence as a share or None, answered correctly)."""
    left_out = 0
    stated: list[list[tuple[float, bool]]] = [[] for _ in range(BINS)]
    for confidence, correct in attempted:
        if confidence is None:
            left_out += 1
        else:
            stated[min(int(confidence * BINS), BINS - 1)].append((confidence, correct))
    bins = tuple(_bin(index, pairs) for index, pairs in enumerate(stated) if pairs)
    count = sum(b.count for b in bins)
    if not count:
        return Calibration(0, left_out, None, None, ())
    brier = math.fsum((confidence - correct) ** 2 for pairs in stated for confidence, correct in pairs) / count
    ece = math.fsum(b.count * abs(b.confidence - b.accuracy) for b in bins) / count
    return Calibration(count, left_out, brier, ece, bins)


def _bin(index: int, pairs: list[tuple[float, bool]]) -> Bin:
    confidence = math.fsum(confidence for confidence, _ in pairs) / len(pairs)
    accuracy = sum(correct for _, correct in pairs) / len(pairs)
    return Bin(index / BINS, (index + 1) / BINS, len(pairs), confidence, accuracy)


def confidence_of(reply: str) -> float | None:
    """The `confidence_score` (0 to 100) in the reply's last JSON object, as a share; None if there is none."""
    last = last_object(reply)
    percent = _number(last.get("confidence_score")) if last else None
    return percent / 100 if percent is not None and 0 <= percent <= 100 else None


def _number(value: Any) -> float | None:
    if isinstance(value, float):
        return value
    if isinstance(value, str) and re.fullmatch(r"\s*\d{1,3}(\.\d+)?\s*%?\s*", value):
        return float(value.replace("%", ""))
    return None
