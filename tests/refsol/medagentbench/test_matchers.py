"""The tests that rules are made of, one by one, also on values of another type."""

from __future__ import annotations

from typing import Any

import pytest

from refsol.medagentbench.matchers import Matcher, at, contains, either, equal, lookup, near, only, optional, some, word
from refsol.verdict import MISSING

ACCEPTED: list[tuple[Matcher, str, list[Any], list[Any]]] = [
    (equal(1), "1", [1, 1.0, True], [MISSING, None, "1", [1], 2]),
    (equal("IV"), '"IV"', ["IV"], ["iv", " IV", ["IV"], MISSING]),
    (only("a"), '["a"]', [["a"]], ["a", [], ["a", "a"], MISSING]),
    (contains("a"), 'something that contains "a"', ["bab", ["a"], {"a": 1}], ["A", ["ba"], {"b": "a"}, 1, MISSING]),
    (near(0.0, 0.1), "0.0 ± 0.1", [0.1, -0.1, 0, False], [0.11, "0", None, MISSING, 10**400, float("nan")]),
    (word("po", "oral"), '"po" or "oral"', ["oral", " PO\n"], ["by oral", 1, ["oral"], MISSING]),
    (either(equal(1), equal(2)), "1 or 2", [1, 2], [3, MISSING]),
    (at(("a", 0), equal(1)), "1 at a[0]", [{"a": [1, 2]}], [{"a": [2, 1]}, {"a": []}, {"a": {"0": 1}}, [1], MISSING]),
    (some(equal(1)), "a list with 1", [[1], [0, 1]], [[], [0], 1, {"1": 1}, MISSING]),
    (optional(equal(1)), "1, or nothing", [1, MISSING], [2, None]),
]


@pytest.mark.parametrize(("form", "words", "good", "bad"), ACCEPTED, ids=[words for _, words, _, _ in ACCEPTED])
def test_a_form_accepts_what_it_says(form: Matcher, words: str, good: list[Any], bad: list[Any]) -> None:
    assert form.expected == words
    assert all(form.accepts(value) for value in good)
    assert not any(form.accepts(value) for value in bad)


def test_a_place_that_is_not_there_is_missing() -> None:
    value = {"a": [{"b": None}]}
    assert lookup(value, ("a", 0, "b")) is None
    for path in (("a", 1), ("a", 0, "c"), ("a", "0"), ("a", 0, "b", "c"), (0,)):
        assert lookup(value, path) is MISSING
