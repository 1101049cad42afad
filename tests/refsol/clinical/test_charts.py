"""Charts as hospitals have them: other units, dates without a time, parts of a birth date, several values at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from refsol.clinical.chart import Chart
from refsol.clinical.checking import Checked, check
from refsol.clinical.codes import CPT, LOINC, RXNORM, SNOMED, Code, Drug, Lab, days
from refsol.clinical.meanings import CLINICAL, Near
from refsol.clinical.orders import lab_test
from refsol.clinical.rulings import Ruling, answer, nothing, order
from refsol.clinical.sources import Resources
from refsol.clinical.task_type import RuleError
from refsol.errors import DataFault
from tests.refsol.clinical.wards import NOW, Json, checked, concept, kind_of, ordered, reading, resource

POTASSIUM = Lab("2823-3", LOINC, "potassium", unit="mmol/L", valence=1)
ALBUMIN = Lab("2823-3", LOINC, "albumin", unit="mg/dL", decimals=0)
MAMMOGRAPHY = Code("77067", CPT, "mammography")
WARFARIN = Drug("11289", RXNORM, "warfarin", words=("coumadin", "jantoven"))
PENICILLIN = Code("91936005", SNOMED, "allergy to penicillin")
ASTHMA = Code("195967001", SNOMED, "asthma")


def fault(rule: Callable[[Chart], Any], *resources: Json, now: datetime = NOW) -> str:
    """The reason for which a rule cannot rule on a chart."""
    with pytest.raises(DataFault) as raised:
        kind_of(rule)().ruled(Chart(Resources(resources), "P1", now, CLINICAL))
    return raised.value.reason


def value(rule: Callable[[Chart], Any], *resources: Json, now: datetime = NOW) -> Any:
    """What a rule computes from a chart."""
    ruling = kind_of(lambda chart: answer([rule(chart)]))().ruled(Chart(Resources(resources), "P1", now, CLINICAL))
    assert ruling.answers is not None
    return ruling.answers[0][0]


def patient(**elements: Any) -> Json:
    return {"resourceType": "Patient", "id": "P1", **elements}


def amount(number: float, unit: str, **more: Any) -> Json:
    return reading(number, valueQuantity={"value": number, "unit": unit, **more})


# Units


def below(lab: Lab, limit: float) -> Callable[[Chart], Ruling]:
    def rule(chart: Chart) -> Ruling:
        last = chart.latest(lab)
        if last is None:
            return nothing([-1])
        return order(lab_test(lab), answers=[[last.value]]) if last < limit else nothing([last.value])

    return rule


def test_a_reading_in_another_unit_decides_and_the_reason_shows_both() -> None:
    low = checked(below(POTASSIUM, 3.5), amount(3.1, "mEq/L"))
    assert low.ruling.branch == "order"
    assert low.answer == [3.1]
    assert low.because.startswith("last potassium 3.1 mEq/L = 3.1 mmol/L at 2024-03-05 08:00")
    whole = checked(below(ALBUMIN, 30), amount(0.29, "g/L"))
    assert (whole.ruling.branch, whole.answer) == ("order", [29])
    assert "0.29 g/L = 29.0 mg/dL" in whole.because


@pytest.mark.parametrize(("number", "branch"), [(0.28, "order"), (0.29, "no order"), (0.3, "no order")])
def test_a_limit_decides_as_if_the_chart_had_been_written_in_the_unit_of_the_rule(number: float, branch: str) -> None:
    assert checked(below(ALBUMIN, 29), amount(number, "g/L")).ruling.branch == branch
    assert checked(below(ALBUMIN, 29), amount(number * 1000, "mg/L")).ruling.branch == branch


def test_a_mean_is_of_converted_readings() -> None:
    def rule(chart: Chart) -> Ruling:
        mean = chart.mean(ALBUMIN)
        return answer([Near(float(mean), 0.01)]) if mean is not None else nothing()

    found = checked(rule, amount(0.29, "g/L"), {**amount(31, "mg/dL"), "id": "2"})
    assert found.answer == [30.0]
    assert "0.29 g/L = 29.0, 31 mg/dL; their mean is 30" in found.because


def test_a_twin_changes_a_reading_in_the_unit_of_its_chart() -> None:
    twin = checked(below(ALBUMIN, 29), amount(0.28, "g/L")).twin
    assert twin is not None
    assert twin.change.words == "Observation/1: value 0.28 → 0.29"
    assert twin.change.put["Observation/1"]["valueQuantity"] == {"value": 0.29, "unit": "g/L"}  # type: ignore[index]  # the resource is not removed


@pytest.mark.parametrize(
    ("quantity", "reason"),
    [
        ({"value": 3.1, "unit": "mEq/kg"}, "another unit (mEq/kg, wanted mmol/L)"),
        ({"value": 3.1, "unit": "for Anna Smith"}, "another unit (unknown, wanted mmol/L)"),
        ({"value": 3.1}, "no unit"),
        ({"value": "3.1", "unit": "mmol/L"}, "no value"),
        ({"value": 3.1, "unit": "mmol/L", "comparator": "<"}, "no value"),
        ({}, "no value"),
    ],
)
def test_a_reading_that_cannot_be_used_has_a_reason_of_its_kind(quantity: Json, reason: str) -> None:
    assert fault(below(POTASSIUM, 3.5), reading(3.1, valueQuantity=quantity)) == reason


@pytest.mark.parametrize(
    ("time", "quantity", "reason"),
    [
        ("2024-03-01T08:00:00Z", {"value": 3.1}, ""),
        ("2024-03-01", {"value": 3.1, "unit": "mEq/kg"}, ""),
        ("2024-02", {"value": 3.1, "unit": "mmol/L", "comparator": "<"}, ""),
        ("2024-03-06T08:00:00Z", {"value": 3.1}, ""),  # after now
        ("2024-03-05T09:00:00Z", {"value": 3.1}, "no unit"),
        ("2024-03-05T08:00:00Z", {"value": 3.1}, "no unit"),
        ("2024-03-05", {"value": 3.1}, "day too coarse"),
        ("2024-03", {"value": 3.1}, "day too coarse"),
        ("", {"value": 3.1, "unit": "mmol/L"}, "no time"),
    ],
)
def test_a_reading_that_cannot_be_used_matters_only_if_it_may_be_the_last(
    time: str, quantity: Json, reason: str
) -> None:
    rule, unusable = below(POTASSIUM, 3.5), reading(3.1, time, 2, valueQuantity=quantity)
    last = reading(3.2, "2024-03-05T08:00:00Z")
    if reason:
        assert fault(rule, unusable, last) == reason
        return
    decided = checked(rule, unusable, last)
    assert decided.answer == [3.2]
    assert decided.ruling.branch == "order"
    assert decided.twin is not None


def test_a_reading_that_cannot_be_used_does_not_matter_outside_the_window() -> None:
    def rule(chart: Chart) -> float:
        mean = chart.mean(POTASSIUM, within=timedelta(hours=24))
        return -1 if mean is None else float(mean)

    last, unusable = reading(3.2), {"valueQuantity": {"value": 3.1}}
    assert value(rule, reading(3.1, "2024-03-01T08:00:00Z", 2, **unusable), last) == 3.2
    assert fault(lambda chart: answer([rule(chart)]), reading(3.1, "2024-03-05T07:00:00Z", 2, **unusable), last) == (
        "no unit"
    )


# Dates without a time of day


def done(date: str, number: int = 1) -> Json:
    return resource("Procedure", number, status="completed", code=concept("77067", CPT), performedDateTime=date)


def overdue(chart: Chart) -> bool:
    last = chart.last_done(MAMMOGRAPHY)
    return last is None or last.older_than(days=365)


@pytest.mark.parametrize(
    ("date", "expected"),
    [
        ("2023-03-05", True),  # a year of 366 days before 2024-03-05T14:00 is 2023-03-06T14:00
        ("2023-03-06", None),
        ("2023-03-07", False),
        ("2023-02", True),
        ("2023-03", None),
        ("2023-04", False),
        ("2022", True),
        ("2023", None),
        ("2024-03-04", False),
        ("2024-03-05", None),
        ("2024-03-06", True),
        ("2024", None),
    ],
)
def test_a_date_decides_if_the_rest_of_its_day_cannot_change_the_outcome(date: str, expected: bool | None) -> None:
    if expected is None:
        assert fault(lambda chart: answer([overdue(chart)]), done(date)) == "day too coarse"
    else:
        assert value(overdue, done(date)) is expected


def test_the_day_is_that_of_the_zone_of_now() -> None:
    tokyo = timezone(timedelta(hours=9))
    now = datetime(2024, 3, 5, 1, tzinfo=tokyo)  # 2024-03-04T16:00Z

    def before(chart: Chart) -> bool:
        last = chart.last_done(MAMMOGRAPHY)
        assert last is not None
        return last.before(datetime(2024, 3, 3, 15, tzinfo=UTC))  # midnight of the 4th in Tokyo

    assert value(before, done("2024-03-03"), now=now) is True
    assert value(before, done("2024-03-04"), now=now) is False


def test_the_last_of_several_dates_is_known_unless_the_time_of_day_decides() -> None:
    dates = [reading(4.0, "2024-03-01", 1), reading(5.0, "2024-03-02", 2), reading(4.5, "2024-02", 3)]

    def last(chart: Chart) -> float:
        found = chart.latest(POTASSIUM)
        return -1 if found is None else found.value

    assert value(last, *dates) == 5.0
    assert (
        fault(lambda chart: answer([last(chart)]), *dates, reading(6.0, "2024-03-02T08:00:00Z", 4)) == "day too coarse"
    )
    assert value(last, *dates, reading(5.0, "2024-03-02T08:00:00Z", 4)) == 5.0
    assert value(last, *dates, reading(6.0, "2024-03-03T08:00:00Z", 4)) == 6.0


def test_a_date_at_the_edge_of_a_window_counts_only_if_it_matters() -> None:
    edge, inside = reading(3.0, "2024-03-02", 1), reading(4.0, "2024-03-04", 2)

    def last(chart: Chart) -> float:
        found = chart.latest(POTASSIUM, within=days(3))
        return -1 if found is None else found.value

    def every(chart: Chart) -> int:
        return len(chart.all(POTASSIUM, within=days(3)))

    assert value(last, edge, inside) == 4.0
    assert value(every, inside) == 1
    assert value(every, reading(3.0, "2024-03-01", 1)) == 0
    assert fault(lambda chart: answer([last(chart)]), edge) == "day too coarse"
    assert fault(lambda chart: answer([every(chart)]), edge, inside) == "day too coarse"


def test_to_compare_or_calculate_with_a_date_itself_is_no_guess() -> None:
    def sorted_values(chart: Chart) -> list[float]:
        return [event.value for event in sorted(chart.all(POTASSIUM), key=lambda event: event.time)]

    first, second = reading(3.0, "2024-03-01", 1), reading(4.0, "2024-02-20", 2)
    assert value(sorted_values, first, second) == [4.0, 3.0]
    assert fault(lambda chart: answer([sorted_values(chart)]), first, {**first, "id": "3"}) == "day too coarse"
    assert fault(lambda chart: answer([chart.all(POTASSIUM)[0].time + days(1)]), first) == "day too coarse"
    assert fault(lambda chart: answer([chart.now - chart.all(POTASSIUM)[0].time > days(1)]), first) == "day too coarse"


def test_a_twin_moves_a_date_by_its_day() -> None:
    found = checked(lambda chart: order(lab_test(MAMMOGRAPHY)) if overdue(chart) else nothing(), done("2023-03-05"))
    assert found.twin is not None
    assert found.twin.change.words == "Procedure/1: 2023-03-05 → 2023-03-07"
    assert "mammography on 2023-03-05; older than 365 days" in found.because


@pytest.mark.parametrize(
    "elements", [{"effectivePeriod": {"end": "2024-03-05T08:00:00Z"}}, {"effectiveInstant": "2024-03-05T08:00:00Z"}]
)
def test_a_period_and_an_instant_are_times(elements: Json) -> None:
    def last(chart: Chart) -> float:
        found = chart.latest(POTASSIUM)
        return -1 if found is None else found.value

    measured = {key: part for key, part in reading(4.0).items() if key != "effectiveDateTime"}
    assert value(last, {**measured, **elements}) == 4.0
    assert fault(lambda chart: answer([last(chart)]), measured) == "no time"
    assert (
        fault(lambda chart: answer([last(chart)]), {**measured, "effectiveDateTime": "2024-03-05T08:00:00"})
        == "no time zone"
    )


# Who the patient is


def test_the_age_follows_from_a_part_of_the_birth_date_if_that_decides() -> None:
    def adult(chart: Chart) -> bool:
        return chart.age >= 50

    assert value(adult, patient(birthDate="1973")) is True
    assert value(adult, patient(birthDate="1975")) is False
    assert value(adult, patient(birthDate="1974-02")) is True
    assert value(adult, patient(birthDate="1974-04")) is False
    assert value(lambda chart: chart.age, patient(birthDate="1974-02")) == 50
    for text in ("1974", "1974-03"):
        assert fault(lambda chart: answer([adult(chart)]), patient(birthDate=text)) == "day too coarse"
    for rule in (lambda chart: chart.age, lambda chart: chart.age + 1, lambda chart: Near(chart.age, 1)):
        assert fault(lambda chart, rule=rule: answer([rule(chart)]), patient(birthDate="1974")) == "day too coarse"
    assert fault(lambda chart: answer([chart.birth_date.isoformat()]), patient(birthDate="1974")) == "day too coarse"
    for elements in ({}, {"birthDate": "long ago"}, {"birthDate": "1974-13"}):
        assert fault(lambda chart: answer([adult(chart)]), patient(**elements)) == "no birth date"


def test_a_twin_changes_a_year_of_birth() -> None:
    found = checked(
        lambda chart: order(lab_test(MAMMOGRAPHY)) if chart.age >= 50 else nothing(), patient(birthDate="1973")
    )
    assert found.twin is not None
    assert found.twin.change.words == "Patient/P1: birthDate 1973 → 1975"


def test_the_sex_is_read_and_its_twin_has_another_one() -> None:
    def rule(chart: Chart) -> Ruling:
        return order(lab_test(MAMMOGRAPHY)) if chart.sex == "female" else nothing()

    found: Checked = checked(rule, patient(gender="female"))
    assert found.ruling.branch == "order"
    assert found.twin is not None
    assert found.twin.change.words == "Patient/P1: gender female → male"
    assert "female" in found.because
    for elements in ({}, {"gender": "F"}):
        assert fault(rule, patient(**elements)) == "no sex"
    assert fault(lambda chart: answer([chart.sex])) == "no patient"


# Drugs


def prescribed(**elements: Any) -> Json:
    return ordered("", **elements)


@pytest.mark.parametrize(
    ("prescription", "is_warfarin"),
    [
        (ordered("Warfarin 5 mg"), True),
        (ordered("COUMADIN"), True),
        (ordered("heparin"), False),
        (prescribed(medicationCodeableConcept=concept("11289", RXNORM)), True),
        (prescribed(medicationCodeableConcept={**concept("11289", SNOMED), "text": "heparin"}), False),
        (
            prescribed(
                medicationReference={"reference": "#m"},
                contained=[{"resourceType": "Medication", "id": "m", "code": {"text": "Jantoven 2 mg"}}],
            ),
            True,
        ),
    ],
)
def test_a_drug_is_found_by_its_code_its_name_and_its_words(prescription: Json, is_warfarin: bool) -> None:
    assert value(lambda chart: chart.active_order(WARFARIN) is not None, prescription) is is_warfarin
    assert value(lambda chart: len(chart.orders("heparin", WARFARIN)) > 0, prescription) is (
        is_warfarin or "heparin" in json.dumps(prescription)
    )


def test_an_order_without_a_name_is_a_reason() -> None:
    nameless = prescribed(medicationCodeableConcept=concept("855288", RXNORM))
    assert fault(lambda chart: answer([bool(chart.active_order(WARFARIN))]), nameless) == "no drug's name"
    assert fault(lambda chart: answer([bool(chart.active_order("warfarin"))]), nameless) == "no drug's name"


@pytest.mark.parametrize(
    "search",
    [
        lambda chart: chart.active_order(),
        lambda chart: chart.orders(),
        lambda chart: chart.active_order(*Drug("11289", RXNORM, "warfarin").words),
        lambda chart: chart.active_order(""),
        lambda chart: chart.allergy(),
        lambda chart: chart.allergy(" "),
    ],
)
def test_a_search_without_words_is_one_clear_line(search: Callable[[Chart], Any]) -> None:
    with pytest.raises(RuleError, match="no drug to search for; name it by words, or pass the Drug itself") as raised:
        value(search, ordered("heparin"))
    assert "\n" not in str(raised.value)


# Conditions, allergies and intolerances


def problem(kind: str, code: Json, clinical: str = "", verified: str = "") -> Json:
    states = {"clinicalStatus": clinical, "verificationStatus": verified}
    return resource(kind, code=code, **{name: concept(state) for name, state in states.items() if state})


@pytest.mark.parametrize(
    ("states", "counts", "counts_if_any"),
    [
        ({}, True, True),
        ({"clinical": "active"}, True, True),
        ({"clinical": "recurrence"}, True, True),
        ({"clinical": "active", "verified": "unconfirmed"}, True, True),
        ({"clinical": "inactive"}, False, True),
        ({"clinical": "remission"}, False, True),
        ({"clinical": "resolved"}, False, True),
        ({"clinical": "active", "verified": "refuted"}, False, True),
        ({"clinical": "active", "verified": "entered-in-error"}, False, False),
    ],
)
def test_only_what_the_patient_has_counts(states: Json, counts: bool, counts_if_any: bool) -> None:
    asthma = problem("Condition", concept("195967001", SNOMED), **states)
    assert value(lambda chart: chart.has_condition(ASTHMA), asthma) is counts
    assert value(lambda chart: chart.has_condition(ASTHMA, status="any"), asthma) is counts_if_any
    allergy = problem("AllergyIntolerance", {**concept("91936005", SNOMED), "text": "Warfarin"}, **states)
    allergy = {**allergy, "patient": allergy["subject"]}
    for search in (
        lambda chart, status="": chart.first("AllergyIntolerance", PENICILLIN, status),
        lambda chart, status="": chart.allergy(WARFARIN, status=status),
    ):
        assert value(lambda chart, search=search: search(chart) is not None, allergy) is counts
        assert value(lambda chart, search=search: search(chart, "any") is not None, allergy) is counts_if_any


def test_a_search_for_a_status_finds_it() -> None:
    asthma = problem("Condition", concept("195967001", SNOMED), clinical="resolved")
    assert value(lambda chart: chart.has_condition(ASTHMA, status="resolved"), asthma)


# Several values at once


def test_several_values_at_one_time_are_no_guess() -> None:
    def last(chart: Chart, several: Any = None) -> float:
        found = chart.latest(POTASSIUM, several=several)
        return -1 if found is None else found.value

    two = [reading(4.0, number=1), reading(5.5, number=2)]
    assert fault(lambda chart: answer([last(chart)]), *two) == "several values at once"
    assert value(lambda chart: last(chart, "highest"), *two) == 5.5
    assert value(lambda chart: last(chart, "lowest"), *two) == 4.0
    assert value(last, *two, reading(3.0, "2024-03-05T09:00:00Z", 3)) == 3.0
    assert value(last, reading(4.0, number=1), {**amount(4.0, "mEq/L"), "id": "2"}) == 4.0
    with pytest.raises(RuleError, match="several='any': use 'highest' or 'lowest'"):
        value(lambda chart: last(chart, "any"), *two)


def test_check_works_on_a_chart_with_everything_at_once() -> None:
    def rule(chart: Chart) -> Ruling:
        last = chart.latest(POTASSIUM, several="highest")
        due = chart.sex == "female" and chart.age >= 50 and overdue(chart) and last is not None and last >= 5
        return order(lab_test(MAMMOGRAPHY)) if due else nothing()

    chart = [patient(gender="female", birthDate="1965"), done("2022-05"), amount(5.1, "mEq/L")]
    found = check(kind_of(rule), chart, patient="P1", now=NOW)
    assert found.ruling.branch == "order"
    assert found.twin is not None
