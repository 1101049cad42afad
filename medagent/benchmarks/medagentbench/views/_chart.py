"""A chart of an episode's deciding test over time, with the readings that decide and those that the agent saw."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from medagent.engine.blocks import ChartBlock, Reading
from refsol.errors import FactsError
from refsol.json_values import json_value
from refsol.medagentbench import PUBLISHED, Constants, Fact, Facts, deciding_test
from refsol.medagentbench.clinical import DataError, LabResult, read_measurement

_TIME = re.compile(r'"(\d{4}-\d{2}-\d{2}T[^"]*)"')
_MOST = 600
"""The most readings that are drawn: the latest ones, and in addition those that decide."""


def chart(
    task: Any,
    decisive: Sequence[Fact],
    answer: Any,
    facts: Facts | None,
    replies: Sequence[str] | None,
    constants: Constants = PUBLISHED,
) -> Any:
    """The chart of a task's deciding test. None if the task has no such test or there is nothing to draw.

    `decisive` are the facts that decide the verdict; `facts` is the source of all readings. `replies` are the replies
    that the agent got, or None if they were not stored.
    """
    test = deciding_test(task.type, constants)
    if test is None or not decisive or not task.eval_MRN:
        return None
    deciding = {(one.time, one.value) for one in decisive if one.name == test.code and one.time}
    seen = None if replies is None else _times(replies, test.code)
    stored, left_out = _drawn(facts, task.eval_MRN, test.code, {time for time, _ in deciding})
    readings = [
        Reading(
            _milliseconds(one.time),
            one.text,
            one.value,
            decides=(one.text, one.value) in deciding,
            seen=None if seen is None else one.text in seen,
        )
        for one in stored
    ]
    number = _first_number(answer)
    values = [float(one.value) for one in stored if (one.text, one.value) in deciding]
    return ChartBlock(
        title=f"{test.code} of {task.eval_MRN}",
        unit=test.unit,
        readings=readings,
        now=_milliseconds(constants.now),
        start=None if test.start is None else _milliseconds(test.start),
        window=test.window,
        thresholds=test.thresholds,
        mean=sum(values) / len(values) if test.is_mean and values else None,
        answered=None if number == -1 else number,
        denied=number == -1 and bool(deciding),
        note=f"{left_out} earlier readings are not shown." if left_out else "",
    )


def _drawn(facts: Facts | None, mrn: str, code: str, deciding: set[str | None]) -> tuple[list[LabResult], int]:
    """The readings to draw, sorted by time, and the number of those that are left out."""
    readings = []
    try:
        for observation in facts.observations(mrn, code) if facts is not None else ():
            try:
                readings.append(read_measurement(observation, code))
            except DataError:
                continue
    except FactsError:
        return [], 0
    readings.sort(key=lambda one: _milliseconds(one.time))
    shown = [one for place, one in enumerate(readings) if place >= len(readings) - _MOST or one.text in deciding]
    return shown, len(readings) - len(shown)


def _times(replies: Sequence[str], code: str) -> set[str]:
    """The times in those replies that mention the code."""
    return {time for text in replies if f'"{code}"' in text for time in _TIME.findall(text)}


def _milliseconds(time: datetime) -> float:
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000


def _first_number(answer: Any) -> float | None:
    """The first number in an answer (-1 means that there is no reading), or None if it has no number."""
    value = json_value(answer) if isinstance(answer, str) else None
    first = value[0] if isinstance(value, list) and value else value
    if not isinstance(first, int | float) or isinstance(first, bool):
        return None
    return float(first) if abs(first) < 1e9 else None
