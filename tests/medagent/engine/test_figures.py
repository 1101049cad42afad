"""Amounts as a person reads them."""

from __future__ import annotations

from medagent.core.number_formats import counted, some_are


def test_one_thing_is_singular() -> None:
    assert [counted(count, "units") for count in (0, 1, 2)] == ["0 units", "1 unit", "2 units"]
    assert [some_are(1, total, "episodes") for total in (1, 5)] == ["1 of 1 episode is", "1 of 5 episodes are"]
