"""Two runs paired by task, against figures worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from medagent.core.errors import UserError
from medagent.engine.report import ItemOutcome
from medagent.reports.compare import compare, compare_outcomes
from medagent.reports.compare_views import print_compared


def verdicts(right: str, wrong: str) -> dict[str, bool]:
    return dict.fromkeys(right, True) | dict.fromkeys(wrong, False)


def test_flips_each_way_and_their_p() -> None:
    found = compare(verdicts("abc" + "h", "defgi" + "jkl"), verdicts("abc" + "defgi", "h" + "jkl"))
    assert found.both_right == ("a", "b", "c")
    assert found.both_wrong == ("j", "k", "l")
    assert found.gained == ("d", "e", "f", "g", "i")
    assert found.lost == ("h",)
    assert found.tasks == 12
    assert found.difference == pytest.approx((5 - 1) / 12)
    # McNemar: (5 − 1)² / 6 = 2.667, chi-squared with one degree of freedom.
    assert found.p == pytest.approx(0.10247, abs=1e-5)
    assert found.interval.low < found.difference < found.interval.high


def test_the_interval_is_near_the_normal_one() -> None:
    """40 gained, 10 lost, 150 the same: the variance of a step is 50/200 - 0.15², so the error is 0.0337."""
    same = {f"s{number}": True for number in range(150)}
    gained, lost = ({f"{kind}{number}" for number in range(count)} for kind, count in (("g", 40), ("l", 10)))
    found = compare(
        same | dict.fromkeys(gained, False) | dict.fromkeys(lost, True),
        same | dict.fromkeys(gained, True) | dict.fromkeys(lost, False),
    )
    assert found.difference == pytest.approx(0.15)
    assert found.interval.low == pytest.approx(0.15 - 1.96 * 0.0337, abs=0.015)
    assert found.interval.high == pytest.approx(0.15 + 1.96 * 0.0337, abs=0.015)


def test_all_flips_one_way() -> None:
    found = compare(verdicts("", "abcdefghij"), verdicts("abcdefghij", ""))
    assert (found.difference, found.interval.high) == (1, 1)
    assert found.interval.low == pytest.approx(10 / (10 + 1.96**2) - 1.96**2 / (10 + 1.96**2), abs=0.02)
    assert found.p == pytest.approx(0.0015654, abs=1e-7)  # 10² / 10 = 10


def test_equal_runs_do_not_differ() -> None:
    found = compare(verdicts("ab", "c"), verdicts("ab", "c"))
    assert (found.difference, found.p) == (0, 1)
    edge = 1.96**2 / (3 + 1.96**2)  # Tango's score interval without a discordant pair
    assert (found.interval.low, found.interval.high) == pytest.approx((-edge, edge), abs=1e-4)


@pytest.mark.parametrize(("n", "points"), [(2, 65.8), (300, 1.3)])
def test_equal_runs_have_the_interval_of_their_number_of_items(n: int, points: float) -> None:
    same = {f"i{number}": True for number in range(n)}
    found = compare(same, same, {f"i{number}": f"t{number % 2}" for number in range(n)})
    assert 100 * found.interval.high == pytest.approx(points, abs=0.05)
    assert found.interval.low == pytest.approx(-found.interval.high)


def test_only_tasks_that_both_runs_have_are_compared() -> None:
    found = compare(verdicts("ab", "x"), verdicts("by", "a"))
    assert (found.both_right, found.lost, found.tasks) == (("b",), ("a",), 2)


def test_nothing_in_common() -> None:
    with pytest.raises(UserError, match="do not share a graded task"):
        compare(verdicts("a", ""), verdicts("b", ""))


def outcomes(right: dict[str, bool | None], cluster: bool = False) -> list[ItemOutcome]:
    return [
        ItemOutcome(item=item, correct=verdict, cluster=item.partition("/")[0] if cluster else "")
        for item, verdict in right.items()
    ]


def test_what_is_not_compared_is_counted_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    first = {f"q{n}": True if n < 49 else None for n in range(80)}
    found = compare_outcomes(outcomes(first), outcomes(dict.fromkeys(first, False)))
    assert (found.tasks, found.uncompared) == (49, tuple(f"q{n}" for n in range(49, 80)))
    print_compared(Path("a"), {Path("b"): found})
    named = ", ".join(f"q{n}" for n in range(49, 69))
    assert f"Not compared: 31 of 80: {named} and 11 more\n" in capsys.readouterr().out
    print_compared(Path("a"), {Path("b"): found, Path("c"): found})
    assert "not compared" in capsys.readouterr().out


def test_the_languages_of_a_question_are_one_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    """Five questions gain in both languages, one loses in one and one turns both ways: 5 against 1, not 11 to 2."""
    before = {f"{name}/{language}": False for name in "abcde" for language in ("en", "hu")}
    after = dict.fromkeys(before, True)
    before |= {"f/en": True, "f/hu": True, "g/en": True, "g/hu": False}
    after |= {"f/en": False, "f/hu": True, "g/en": False, "g/hu": True}
    alone = compare_outcomes(outcomes(dict(before)), outcomes(dict(after)))
    found = compare_outcomes(outcomes(dict(before), cluster=True), outcomes(dict(after), cluster=True))
    assert (alone.clusters, found.clusters) == (None, 7)
    assert found.difference == alone.difference
    assert alone.p == pytest.approx(0.012555, abs=1e-6)  # (11 − 2)² / 13
    assert found.p == pytest.approx(0.043229, abs=1e-6)  # as 9.2 items instead of 14
    half = {f"q{n}/{language}": n % 2 == 0 for n in range(60) for language in ("en", "hu")}
    wide, narrow = (
        compare_outcomes(outcomes(dict.fromkeys(half, False), cluster), outcomes(dict(half), cluster)).interval
        for cluster in (True, False)
    )
    assert wide.high - wide.low > 1.2 * (narrow.high - narrow.low), "as many values as questions, not twice as many"
    print_compared(Path("a"), {Path("b"): found})
    assert "over 7 clusters of dependent items" in capsys.readouterr().out
