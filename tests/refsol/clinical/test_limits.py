"""The limits that a chart records: with whatever a rule compares, and what follows for reasons, branches and twins."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from refsol.clinical.chart import Chart
from refsol.clinical.checking import check
from refsol.clinical.codes import CPT, LOINC, RXNORM, Code, days
from refsol.clinical.evidence import branch_words
from refsol.clinical.meanings import CLINICAL, Near
from refsol.clinical.orders import lab_test, medication
from refsol.clinical.rulings import Ruling, answer, nothing, order
from refsol.clinical.sources import Resources
from refsol.errors import DataFault
from tests.refsol.clinical.wards import (
    NOW,
    POTASSIUM,
    Json,
    Rule,
    checked,
    concept,
    graded,
    kind_of,
    reading,
    resource,
)

Decides = Callable[[Chart, Sequence[Any]], bool]
ECG, POTASSIUM_CHLORIDE = Code("93000", CPT, "ECG"), Code("8591", RXNORM, "potassium chloride")
TEST, OTHER = lab_test(POTASSIUM), lab_test(Code("2951-2", LOINC, "sodium"))
BORN = {"resourceType": "Patient", "id": "P1", "birthDate": "1958-02-02"}
TWO = (reading(4.0, "2024-03-04T08:00:00+00:00", number=1), reading(7.0, number=2))


def decided(decides: Decides) -> Rule:
    """Orders a test if a decision about the two potassium readings of a chart is true."""

    def rule(chart: Chart) -> Ruling:
        readings = chart.all(POTASSIUM)
        return order(TEST) if len(readings) == 2 and decides(chart, readings) else nothing()

    return rule


LIMITS: dict[str, Decides] = {
    "not below 10": lambda _, two: sum(event.number for event in two) >= 10,
    "above 2": lambda _, two: 10 - two[1].number > 2,
    "not below 3": lambda _, two: abs(two[0].number - two[1].number) >= 3,
    "not below 14": lambda _, two: two[1].number * 2 >= 14,
    "below 15": lambda _, two: 2 * two[1].number < 15,
    "not below 1.5": lambda _, two: two[1].number / two[0].number >= 1.5,
    "above 1": lambda _, two: 8 / two[1].number > 1,
    "exactly 7": lambda _, two: two[1] == 7,
    "above 6.5, not 8": lambda _, two: two[1] > 6.5 and two[1] != 8,
    "exactly 11": lambda _, two: two[0].number + two[1].number == 11,
    "difference below 0": lambda _, two: two[0] < two[1],
    "age not below 65": lambda chart, _: chart.age >= 65,
    "age exactly 66": lambda chart, _: chart.age == 66,
}


@pytest.mark.parametrize("words", LIMITS)
def test_a_limit_is_in_the_reason_and_makes_a_twin(words: str) -> None:
    found = checked(decided(LIMITS[words]), *TWO, BORN)
    assert found.because.endswith(f"; {words} → order potassium"), found.because
    assert found.twin is not None
    assert "removed" not in found.twin.change.words, "a value or a date changes"


def test_limits_of_a_value_and_of_what_is_computed_from_it_are_apart() -> None:
    found = checked(decided(lambda _, two: two[1] > 6 and two[1].number * 2 < 20), *TWO)
    assert found.because.endswith("above 6, below 20 → order potassium"), found.because


def test_two_events_are_equal_only_if_they_are_the_same() -> None:
    def rule(chart: Chart) -> Ruling:
        readings = chart.all(POTASSIUM)
        return answer([len([event for event in readings if event != readings[0]]), len(set(readings))])

    same = [reading(4.0, number=number) for number in (1, 2, 3)]
    assert checked(rule, *same).answer == [2, 3]


def test_a_division_by_a_value_of_zero_is_a_fault_of_the_data() -> None:
    def rule(chart: Chart, two: Sequence[Any]) -> bool:
        return bool(two[1].number / two[0].number > 1)

    with pytest.raises(DataFault, match="would have to be divided by 0"):
        checked(decided(rule), reading(0.0), reading(7.0, number=2))


def test_an_age_is_written_as_it_is_and_grading_records_nothing() -> None:
    def rule(chart: Chart) -> Ruling:
        last = chart.latest(POTASSIUM)
        return answer([-1]) if chart.age < 18 or last is None else answer([chart.age, last.number])

    assert json.dumps(checked(rule, reading(4.5), BORN).answer) == "[66, 4.5]"
    verdict = graded(rule, resources=[reading(4.5), BORN], answer="[66, 4.5]")
    assert verdict.correct
    assert verdict.because is not None
    assert verdict.because.sentence.endswith("; age not below 18")


def test_patients_who_differ_only_in_times_have_one_branch() -> None:
    def rule(chart: Chart) -> Ruling:
        done, last = chart.last_done(ECG), chart.latest(POTASSIUM)
        return order(TEST) if done and last and done.before(last.time) else nothing()

    def branch(hours: int) -> str:
        done, last = (NOW - timedelta(hours=hours + more) for more in (5, 0))
        ecg = resource("Procedure", code=concept("93000", CPT), performedDateTime=done.isoformat())
        chart = Chart(Resources([ecg, reading(4.5, last.isoformat())]), "P1", NOW, CLINICAL)
        assert kind_of(rule)().ruled(chart).branch == "order"
        return branch_words(chart)

    assert {branch(hours) for hours in (1, 2, 30)} == {"before the last potassium"}


def tiers(low: Ruling, high: Ruling, *, recorded: bool) -> Rule:
    """One of two rulings, by the last potassium."""

    def rule(chart: Chart) -> Ruling:
        last = chart.latest(POTASSIUM)
        if last is None:
            return nothing()
        return low if (last if recorded else last.value) < 3 else high

    return rule


def dose(milliequivalents: float) -> Ruling:
    return order(medication(POTASSIUM_CHLORIDE, milliequivalents, "mEq"))


TIERS = {
    "another test": (order(TEST), order(OTHER)),
    "another dose": (dose(40), dose(20)),
    "another answer": (answer(["low"]), answer(["fine"])),
    "no order": (order(TEST), nothing()),
}


@pytest.mark.parametrize("what", TIERS)
def test_another_order_or_answer_is_another_ruling(what: str) -> None:
    found = checked(tiers(*TIERS[what], recorded=True), reading(2.9))
    assert found.twin is not None
    assert found.twin.change.words == "Observation/1: value 2.9 → 3"
    with pytest.warns(UserWarning, match="2.9 → 3.19 changes the ruling against the chart as it is, at a limit"):
        check(kind_of(tiers(*TIERS[what], recorded=False)), [reading(2.9)], patient="P1", now=NOW)


@pytest.mark.parametrize(
    "make",
    [
        lambda last: order(medication(POTASSIUM_CHLORIDE, (5 - last.value) * 10, "mEq", tolerance=0.1)),
        lambda last: order(medication(POTASSIUM_CHLORIDE, 20 * int(last.number), "mEq")),
        lambda last: order(lab_test(POTASSIUM, note=f"the last potassium was {last.value:g}")),
        lambda last: order(lab_test(POTASSIUM, at=(last.time + days(30)).replace(hour=8))),
        lambda last: answer([last.value]),
        lambda last: answer([Near(last.number * 18, 0.1)]),
        lambda last: answer([round(last.number)]),
        lambda last: answer([last.text]),
    ],
)
def test_what_is_computed_from_a_reading_has_no_limits(make: Callable[[Any], Ruling]) -> None:
    def rule(chart: Chart) -> Ruling:
        last = chart.latest(POTASSIUM)
        return nothing() if last is None else make(last)

    assert checked(rule, reading(4.2)).twin is not None


def test_a_reading_that_is_the_least_of_several_has_no_limit() -> None:
    def rule(chart: Chart) -> Ruling:
        return answer([min((event.value for event in chart.all(POTASSIUM)), default=-1)])

    resources: list[Json] = list(TWO)
    assert checked(rule, *resources).answer == [4.0]
