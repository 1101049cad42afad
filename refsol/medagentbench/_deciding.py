"""The laboratory test that decides a task type, with its window and thresholds, for the chart of a verdict.

The rules themselves are in `tasks.py`. `test_deciding.py` checks that this table agrees with the facts they name.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cache

from refsol.medagentbench.constants import PUBLISHED, Constants, Lab


@dataclass(frozen=True, slots=True)
class DecidingTest:
    """A laboratory code, its unit, the deciding time window, and the deciding levels.

    `start` is the start of the window, None if every reading counts; `window` describes it. A threshold is a level and
    its meaning.
    """

    code: str
    unit: str
    start: datetime | None
    window: str
    thresholds: tuple[tuple[float, str], ...] = ()
    is_mean: bool = False


@cache
def deciding_test(task_type: str, constants: Constants = PUBLISHED) -> DecidingTest | None:
    """The test that decides a task type (`task5`); None if no test does."""
    recent = (constants.window_start, f"the last {constants.look_back_hours} h count")
    fresh = (constants.a1c_start, f"within {constants.a1c_interval}: no new test due")
    whole = (None, "the latest reading counts, however old")
    tests: dict[str, DecidingTest] = {
        "task4": _test(constants.magnesium, recent),
        "task5": _test(constants.magnesium, recent, *_magnesium(constants)),
        "task6": _test(constants.glucose, recent, is_mean=True),
        "task7": _test(constants.glucose, whole),
        "task9": _test(
            constants.potassium, whole, (constants.potassium_low, f"below {constants.potassium_low}: replace")
        ),
        "task10": _test(constants.a1c, fresh),
    }
    return tests.get(task_type)


def _magnesium(constants: Constants) -> list[tuple[float, str]]:
    *lower, (low, grams) = constants.magnesium_doses
    return [*((level, f"below {level}: {dose} g") for level, dose in lower), (low, f"up to {low}: {grams} g")]


def _test(
    lab: Lab, since: tuple[datetime | None, str], *thresholds: tuple[float, str], is_mean: bool = False
) -> DecidingTest:
    start, window = since
    return DecidingTest(lab.code, lab.unit, start, window, thresholds, is_mean)
