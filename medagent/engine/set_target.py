"""The score of an answer that is a set, such as the populations of a measure or the ids of resources."""

from __future__ import annotations

from collections.abc import Collection

from medagent.engine.scores import Check, Score
from refsol.json_values import json_value


def set_score(answer: str | None, expected: Collection[str], among: Collection[str] = ()) -> Score:
    """The score of an answer, a JSON list in any order: it is right if it has exactly the `expected` elements.

    `details` has its precision and recall (0 to 1; both are 1 if nothing is expected and the list is empty). There is a
    check for each element of `among` (all that may be expected), of `expected`, and of the answer. Numbers count as
    their text. An answer that is not a list is wrong, and so is none.
    """
    value = json_value(answer or "")
    if not isinstance(value, list):
        return Score(correct=False, reason="no answer" if answer is None else "the answer is not a JSON list")
    target, answered = set(expected), {str(element) for element in value}
    hits = len(target & answered)
    empty = not target and not answered
    checks = [
        Check(element, (element in target) == (element in answered), _place(element, target), _place(element, answered))
        for element in dict.fromkeys([*among, *expected, *sorted(answered)])
    ]
    missing, unexpected = ", ".join(sorted(target - answered)), ", ".join(sorted(answered - target))
    reasons = [missing and f"missing: {missing}", unexpected and f"not expected: {unexpected}"]
    return Score(
        correct=target == answered,
        reason="; ".join(filter(None, reasons)),
        checks=tuple(checks),
        details={"precision": _share(hits, answered, empty), "recall": _share(hits, target, empty)},
    )


def _share(hits: int, elements: Collection[str], both_empty: bool) -> float:
    if both_empty:
        return 1.0
    return hits / len(elements) if elements else 0.0


def _place(element: str, elements: Collection[str]) -> str:
    return "in" if element in elements else "out"
