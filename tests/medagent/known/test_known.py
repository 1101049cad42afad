"""Whether an agent could know that its reply is right: every form of search, on a chart with and without the fact."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from refsol.clinical.chart import Chart
from refsol.clinical.codes import Code, days, hours
from refsol.clinical.orders import lab_test
from refsol.clinical.rulings import Ruling, answer, nothing, order
from refsol.grounds import NO_READING
from refsol.reads import Read
from tests.medagent.known.charts import Case, others
from tests.refsol.clinical.wards import NOW, POTASSIUM, concept, ordered, reading, resource

OLD, RECENT = "2023-01-05T08:00:00+00:00", "2024-03-05T08:00:00+00:00"
CATEGORY = [
    {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/observation-category", "code": "laboratory"}]}
]
FORM = {"status": "final", "category": CATEGORY}
SODIUM = {**reading(140, OLD, 90, **FORM), "code": concept("2951-2", "http://loinc.org")}
READINGS = [
    reading(2.1, OLD, 1, **FORM),
    reading(4.0, "2023-06-05T08:00:00+00:00", 2, **FORM),
    reading(7.5, OLD, 3, **FORM),
]
HOSPITAL = others(*READINGS, SODIUM)


def last_day(chart: Chart) -> Ruling:
    """The last potassium of 24 hours."""
    level = chart.latest(POTASSIUM, hours(24))
    return answer([-1 if level is None else level.value])


def last(chart: Chart) -> Ruling:
    """The last potassium."""
    level = chart.latest(POTASSIUM)
    return answer([-1 if level is None else level.value])


NONE = Case(last_day, [SODIUM, reading(4.4, OLD, 1, **FORM)], HOSPITAL)
ONE = Case(last_day, [SODIUM, reading(4.4, OLD, 1, **FORM), reading(3.9, RECENT, 2, **FORM)], HOSPITAL)
P = "Observation?patient=P1&code=2823-3"

SHOWS = [
    P,
    f"{P}&_count=5000",
    f"{P}&_format=json&_pretty=true&_total=accurate&_include=Observation:subject",
    f"{P}&_elements=valueQuantity,effectiveDateTime,code",
    f"{P}&_elements=value,effective",
    f"{P}&_summary=false",
    f"{P}&_summary=data",
    f"{P}&status=final,amended,corrected,preliminary",
    f"{P}&status:not=cancelled",
    f"{P}&value-quantity:missing=false",
    f"{P}&value-quantity=gt0",
    f"{P}&value-quantity=gt0,lt1",
    f"{P}&date=ge1900-01-01",
    f"{P}&date=ge2024-03-04",
    f"{P}&date=ge2024-03-04T14:00:00Z&date=le2024-03-06",
    f"{P}&date=ge2024-03-04T14:00:00+00:00",
    f"{P}&_sort=-date&_count=1",
    f"{P}&_sort=-date,_id&_count=2",
    f"{P}&_lastUpdated=ge1990-01-01",
    "Observation/_search?patient=P1&code=2823-3",
    "Observation?patient=P1",
    "Observation?patient=P1&_sort=-date&_count=3",
    "Observation?patient=P1&category=laboratory",
    "Observation?patient=P1&code=2823-3,2951-2",
    "Observation?patient=P1&code=http://loinc.org|2823-3",
    "Observation?patient=P1&combo-code=2823-3",
    "Observation?patient=P1,P2&code=2823-3",
    "Observation?subject=Patient/P1&code=2823-3&_count=50&_sort=-date",
    "Observation?subject=P1&code=2823-3",
    "Observation?patient:Patient=P1&code=2823-3",
    "Observation?patient.identifier=M1&code=2823-3",
    "Observation?patient.family=Lee&code=2823-3",
    "Observation?code=2823-3",
    "Observation",
    "Observation/$lastn?patient=P1&code=2823-3&max=100",
    "Observation/$lastn?patient=P1&code=2823-3",
    "Patient/P1/$everything",
    "Patient/P1/$everything?_type=Patient,Observation&_count=5000",
    "Patient/P1/$everything?_type=Observation&start=2000-01-01",
    "Patient?_id=P1&_revinclude=Observation:patient",
    "Patient?_id=P1&_revinclude:iterate=Observation:subject",
    "Patient?identifier=M1&_revinclude=Observation:subject",
    "Patient?_revinclude=Observation:patient",
    "Patient?_id=P1&_revinclude=Observation:subject&_count=1",
    "Patient/P1/$everything?_since=2030-01-01",  # as HAPI, the server ignores it, and shows all
    "Observation/_history",
    "_history",
    "Observation/$lastn?patient=P1&code=2823-3&max=1",
    "Observation/$lastn?subject=Patient/P1&category=laboratory&max=1",
    "Observation?patient=P1&code:not=2951-2",
    "Observation?patient=P1&category:not=vital-signs",
    "Observation?patient=P1&code-value-quantity=2823-3$gt0",
    "Observation?patient=P1&code=http://loinc.org|",
    "Observation?subject:missing=false&code=2823-3",
    "Observation?subject:Patient.identifier=M1&code=2823-3",
    "Observation?patient.birthdate=1963-11-13&code=2823-3",
    "Observation?patient.name=Ann&code=2823-3",
    "Observation?code=2823-3&date=ge2024-03-04T14:00:00Z",
    f"{P}&_total=none",
    f"{P}&_summary=true",
    f"{P}&date:missing=false",
    f"{P}&date=2024-03",
    f"{P}&value-quantity=lt100",
    f"{P}&value-quantity=gt0&value-quantity=lt100",
    f"{P}&based-on:missing=true",
    f"{P}&_profile:missing=true",
    f"{P}&_include=Observation:performer&_revinclude=Provenance:target",
]
"""Searches that show the last potassium, or that there is none."""
SHOWS_NOTHING = [
    "Patient/P1",
    "Patient?_id=P1",
    "Observation?patient=http://localhost:8080/fhir/Patient/P1&code=2823-3&_tag=none",
    "Observation?patient._id=P1&code=2823-3",
    "Observation?subject._id=P1&code=2823-3",
    "Patient/P1/Observation?code=2823-3",
    "Observation?patient=P2&code=2823-3",
    "Observation?patient=P1&code=2951-2",
    "Observation?patient=P1&code=http://snomed.info/sct|2823-3",
    "Observation?patient=P1&code=|2823-3",
    "Observation?patient=P1&code=http://loinc.org\\|2823-3",
    "Observation?patient=P1&category=vital-signs",
    "Observation?patient=X\\,P1&code=2823-3",
    "Observation?patient.identifier=http://example.org|M1&code=2823-3",
    "Observation?patient.family=Leo&code=2823-3",
    "Observation?subject=Group/P1&code=2823-3",
    "Observation?subject=http://elsewhere.example/fhir/Patient/P1&code=2823-3",
    f"{P}&status=preliminary",
    f"{P}&value-quantity=gt99999",
    f"{P}&date=lt2023-01-01",
    f"{P}&date=ge2024-03-05T12:00:00Z",
    f"{P}&date=2024-03-04T10:00:00Z",
    f"{P}&_lastUpdated=gt2030-01-01",
    f"{P}&_offset=5000",
    f"{P}&_elements=status",
    f"{P}&_count=0&_tag=none",
    f"{P}&_security=none",
    f"{P}&_profile=http://example.org/none",
    f"{P}&_id=none",
    f"{P}&encounter=none",
    f"{P}&performer=none",
    f"{P}&data-absent-reason:missing=false",
    f"{P}&value-string:missing=false",
    "Observation?patient=P1&_summary=count",
    "Observation?patient=2823-3&code=P1",
    "Observation?patient=P1&code:not=2823-3&_elements=valueQuantity",
    "Condition?patient=P1",
    "Patient/P2/$everything",
    "Patient/P1/$everything?_type=Patient",
    "Patient?_id=P1&birthdate=1800-01-01&_revinclude=Observation:patient",
    "Patient?_id=P2&_revinclude=Observation:patient",
    "Patient?_id=P1&_revinclude=Condition:patient",
    "Observation/$lastn?patient=P1&code=2951-2",
    "Observation/$lastn?patient=P2&code=2823-3&max=1",
    "Observation/2",
    "Observation/2/_history",
    "Observation/2/_history/1",
    "Observation/_history?_since=2030-01-01",
    "metadata",
    "Patient/P1?_revinclude=Observation:patient",
    "Patient?_id=P1&_revinclude=Observation:performer",
    "Patient?_id=P1&_has:Observation:patient:code=2823-3",
    "Encounter?patient=P1&_revinclude=Observation:encounter",
    "DiagnosticReport?patient=P1&_include=DiagnosticReport:result",
    "Observation?patient=M1&code=2823-3",
    "Observation?patient:identifier=M1&code=2823-3",
    "Observation?patient:Group=P1&code=2823-3",
    "Observation?performer=Patient/P1&code=2823-3",
    "Observation?patient=P1&patient=P2&code=2823-3",
    "Observation?patient=P1&code=2823-3&code=2951-2",
    "Observation?patient=P1&code=2823-3|",
    "Observation?patient=P1&code:text=sodium",
    "Observation?patient=P1&code:above=2823-3",
    "Observation?patient=P1&code-value-quantity=2823-3$gt99999",
    "Observation?patient=P1&code-value-quantity=2951-2$gt0",
    "Observation?patient.birthdate=1900-01-01&code=2823-3",
    f"{P}&_summary=text",
    f"{P}&_elements=id",
    f"{P}&_count=0",
    f"{P}&_text=potassium",
    f"{P}&_id=2",
    f"{P}&status=registered",
    f"{P}&status:not=final",
    f"{P}&category:missing=true",
    f"{P}&date:missing=true",
    f"{P}&date=2024-02",
    f"{P}&date=ne2024-03-05",
    f"{P}&date=sa2024-03-05",
    f"{P}&date=le2024-03-05T08:00:00Z",
    f"{P}&value-quantity:missing=true",
    f"{P}&value-quantity=3.9",
    f"{P}&value-quantity=gt5",
    f"{P}&_lastUpdated=lt2024-03-05",
    f"{P}&_total=accurate&_count=0&date=ge2030-01-01",
]
"""Searches that could not show a potassium of the last day."""


@pytest.mark.parametrize("search", SHOWS)
def test_an_absence_is_known_from_every_search_that_would_show_the_fact(search: str) -> None:
    found = NONE.grounds(search)
    assert found.grounded is True, found.reading


@pytest.mark.parametrize("search", SHOWS)
def test_a_value_is_known_from_every_search_that_shows_it(search: str) -> None:
    if "value-quantity=gt0,lt1" not in search:
        found = ONE.grounds(search)
        assert found.grounded is True, found.reading


@pytest.mark.parametrize("search", SHOWS_NOTHING)
def test_a_search_that_could_not_show_the_fact_proves_nothing(search: str) -> None:
    for case in (NONE, ONE):
        found = case.grounds(search)
        assert found.grounded is False
        assert found.without_data.reading in KINDS
    both = NONE.grounds(search, P)
    assert both.grounded is True, "beside a search that proves it, it does no harm"


KINDS = (
    "no search could have shown one more of the data that decides",
    "no reply shows the data that decides",
    "read nothing",
)


def test_an_agent_that_reads_nothing_knows_nothing() -> None:
    for case in (NONE, ONE):
        found = case.grounds()
        assert found.grounded is False
        assert found.reading.startswith("read nothing: ")
        assert found.without_data.reading == "read nothing"


MANY = [
    reading(3.0 + number / 100, (NOW - timedelta(days=2 + number)).isoformat(), number, **FORM) for number in range(45)
]


@pytest.mark.parametrize(
    ("search", "absence", "value"),
    [
        (f"{P}&date=ge2024-03-05", False, True),  # one more must be after the last one, which is of that day
        (f"{P}&date=gt2024-03-04", False, True),
        (f"{P}&date=2024-03-05", False, True),
        (f"{P}&_summary=count&date=ge2024-03-04T14:00:00Z", True, False),  # 0 says that there is none
        (f"{P}&_count=0&date=ge2024-03-04T14:00:00Z", True, False),
        (f"{P}&_elements=id&date=ge2024-03-04T14:00:00Z", True, False),
        ("Patient?_id=P1&_has:Observation:patient:date=ge2024-03-04T14:00:00Z", True, False),
    ],
)
def test_some_searches_show_a_value_or_an_absence_only(search: str, absence: bool, value: bool) -> None:
    assert NONE.grounds(search).grounded is absence
    assert ONE.grounds(search).grounded is value


@pytest.mark.parametrize("search", ["encounter:missing=true", "encounter:missing=false", "encounter=e1"])
def test_one_more_belongs_to_an_encounter_as_in_this_hospital(search: str) -> None:
    """Where each reading has an encounter, `encounter:missing=true` finds nothing."""
    of_encounter = {**FORM, "encounter": {"reference": "Encounter/e1"}}
    readings = [reading(value, OLD, place, **of_encounter) for place, value in enumerate((2.1, 4.0, 7.5), 1)]
    case = Case(last_day, [SODIUM, readings[0]], others(*readings, SODIUM))
    assert case.grounds(f"{P}&{search}").grounded is (search == "encounter:missing=false")


def test_pages_prove_what_they_show() -> None:
    case = Case(last_day, MANY, HOSPITAL)
    assert case.grounds(P, pages=3).grounded is True
    for pages in (1, 2):
        found = case.grounds(P, pages=pages)
        assert found.grounded is False, pages
        assert found.reading.startswith(f"read page{'' if pages == 1 else 's 1 to'} {pages}; one more potassium")
        assert found.reading.endswith("on a page that was not opened would make this reply wrong")
        assert found.without_data.reading == "a page of a search was not opened"
    assert case.grounds(f"{P}&_sort=-date", pages=1).grounded is True, "the newest come first"
    assert case.grounds(f"{P}&_sort=date", pages=1).grounded is False
    assert case.grounds(f"{P}&_sort=_id", pages=1).grounded is False
    assert case.grounds(f"{P}&_sort=-_id", pages=1).grounded is False
    assert case.grounds(f"{P}&_sort=status", pages=1).grounded is False, "all are equal, so the order is chance"
    assert case.grounds(f"{P}&_sort=-date&_offset=20", pages=1).grounded is False


def test_a_count_says_only_that_there_is_none() -> None:
    none = Case(last, [SODIUM], HOSPITAL)
    for words in ("_summary=count", "_count=0"):
        assert none.grounds(f"{P}&{words}").grounded is True
        assert NONE.grounds(f"{P}&{words}").grounded is False
        assert ONE.grounds(f"{P}&{words}").grounded is False
    assert none.grounds("Patient?_id=P1&_has:Observation:patient:code=2823-3").grounded is True
    assert none.grounds("Patient?_id=P1&_has:Observation:patient:status=final").grounded is False


def test_without_whose_it_is_or_what_it_is_a_value_is_no_proof() -> None:
    mine = [reading(4.4, OLD, 1, **FORM), SODIUM]
    case = Case(last_day, mine, [*HOSPITAL, *others(reading(4.6, RECENT, 8, **FORM))])
    values = "_elements=valueQuantity,effectiveDateTime"
    assert case.grounds(f"Observation?code=2823-3&{values},code").grounded is False, "whose it is was not shown"
    assert case.grounds(f"Observation?code=2823-3&{values},code,subject").grounded is True
    assert case.grounds(f"Observation?patient=P1&{values}").grounded is False, "which test it is was not shown"
    assert case.grounds(f"Observation?patient=P1&{values},code").grounded is True
    assert ONE.grounds(f"Observation?patient=P1&{values}").grounded is False
    assert case.grounds(f"{P}&_elements=valueQuantity,code").grounded is False, "when it was was not shown"
    assert case.grounds(f"{P}&_summary=text").grounded is False


def test_every_reading_of_a_mean_is_needed() -> None:
    readings = [reading(3.0 + number, f"2024-03-05T0{number}:00:00+00:00", number, **FORM) for number in (1, 2, 3)]

    def mean(chart: Chart) -> Ruling:
        return answer([float(chart.mean(POTASSIUM, hours(24)) or -1)])

    case = Case(mean, [*readings, reading(9, OLD, 8, **FORM)], HOSPITAL)
    assert case.grounds(P).grounded is True
    assert case.grounds(f"{P}&_sort=-date&_count=4", pages=1).grounded is True, "the fourth is before the window"
    assert case.grounds(f"{P}&_sort=-date&_count=3", pages=1).grounded is False
    assert case.grounds(*(f"Observation/{number}" for number in (1, 2, 3))).grounded is False
    assert case.grounds("Observation/1", "Observation/2", f"{P}&date=ge2024-03-05T02:30:00Z").grounded is False


def has_insulin(chart: Chart) -> Ruling:
    return nothing() if chart.active_order("insulin") else order(lab_test(Code("2345-7"), priority="stat"))


def has_diabetes(chart: Chart) -> Ruling:
    return nothing() if chart.has_condition(Code("E11")) else order(lab_test(Code("2345-7"), priority="stat"))


def is_old(chart: Chart) -> Ruling:
    return nothing() if chart.age >= 65 else order(lab_test(Code("2345-7"), priority="stat"))


DRUG = {"intent": "order", "authoredOn": OLD}
INSULIN, STATIN = ordered("insulin glargine", 1, **DRUG), ordered("atorvastatin", 2, **DRUG)
DIABETES = resource("Condition", 1, code=concept("E11"), onsetDateTime=OLD, clinicalStatus=concept("active"))
ASTHMA = resource("Condition", 2, code=concept("J45"), onsetDateTime=OLD, clinicalStatus=concept("active"))


@pytest.mark.parametrize(
    ("search", "there", "absent"),
    [
        ("MedicationRequest?patient=P1", True, True),
        ("MedicationRequest?patient=P1&status=active", True, True),
        ("MedicationRequest?patient=P1&status=active&intent=order", True, True),
        ("MedicationRequest?patient=P1&status=active&code:text=insulin", True, True),
        ("MedicationRequest?patient=P1&status=active,completed&_elements=medication,status", True, True),
        ("Patient/P1/$everything?_type=MedicationRequest", True, True),
        ("MedicationRequest?patient=P1&status=stopped", False, False),
        ("MedicationRequest?patient=P1&status=active&code:text=metformin", False, False),
        ("MedicationRequest?patient=P1&intent=plan", False, False),
        ("MedicationRequest?patient=P1&authoredon=ge2030", False, False),
        ("MedicationRequest?patient=P2", False, False),
        ("MedicationRequest?patient=P1&_elements=status", False, False),
        ("Observation?patient=P1", False, False),
    ],
)
def test_drug_orders_by_word(search: str, there: bool, absent: bool) -> None:
    hospital = others(INSULIN, STATIN)
    assert Case(has_insulin, [INSULIN, STATIN], hospital).grounds(search).grounded is there
    assert Case(has_insulin, [STATIN], hospital).grounds(search).grounded is absent


@pytest.mark.parametrize(
    ("search", "there", "absent"),
    [
        ("Condition?patient=P1", True, True),
        ("Condition?subject=P1&code=E11", True, True),
        ("Condition?patient=P1&code=E11,E10", True, True),
        ("Condition?patient=P1&clinical-status=active", True, True),
        ("Patient?_id=P1&_has:Condition:patient:code=E11", True, True),
        ("Condition?patient=P1&code=E11&_summary=count", True, True),
        ("Condition?patient=P1&code=J45", False, False),
        ("Condition?patient=P1&clinical-status=resolved", False, False),
        ("Condition?patient=P1&onset-date=ge2030", False, False),
        ("Condition?patient=P1&verification-status=refuted", False, False),
        ("Condition?patient=P1&_summary=count", False, False),
        ("Condition?code=E11&_elements=code", False, False),
    ],
)
def test_conditions(search: str, there: bool, absent: bool) -> None:
    hospital = others(DIABETES, ASTHMA)
    assert Case(has_diabetes, [DIABETES, ASTHMA], hospital).grounds(search).grounded is there
    assert Case(has_diabetes, [ASTHMA], hospital).grounds(search).grounded is absent


@pytest.mark.parametrize(
    ("search", "known"),
    [
        ("Patient/P1", True),
        ("Patient?_id=P1", True),
        ("Patient?identifier=M1&_elements=birthDate", True),
        ("Patient?_id=P1&birthdate=ge1959-03-06", True),
        ("Patient/P1/$everything", True),
        ("Observation?patient=P1&_include=Observation:patient", True),
        ("Patient?_id=P1&_elements=name", False),
        ("Patient?_id=P2", False),
        ("Patient?_id=P1&birthdate=ge1900-01-01&_elements=name", False),
        ("Observation?patient=P1", False),
    ],
)
def test_ages(search: str, known: bool) -> None:
    assert Case(is_old, [SODIUM], HOSPITAL).grounds(search).grounded is known


def test_one_of_two_equal_facts_decides_nothing() -> None:
    twice = Case(has_diabetes, [DIABETES, {**DIABETES, "id": "7"}], others(DIABETES))
    assert twice.grounds().grounded is False
    assert twice.grounds("Condition?patient=P1").grounded is True
    assert twice.grounds("Condition/7").grounded is True


def test_a_reply_that_is_right_on_every_neighbour_needs_no_reading() -> None:
    def stated(chart: Chart) -> Ruling:
        chart.latest(POTASSIUM)
        return nothing()

    assert Case(stated, [], HOSPITAL).grounds() == NO_READING


def test_without_an_example_an_absence_is_unknown() -> None:
    bare = Case(last, [], [])
    found = bare.grounds(P)
    assert (found.grounded, found.reading) == (None, "unknown: no example of potassium is known")


def test_nothing_can_be_newer_than_what_was_just_now() -> None:
    just_now = Case(last, [reading(4.4, NOW.isoformat(), 1, **FORM)], HOSPITAL)
    assert just_now.grounds(P).grounded is True


def test_a_server_that_replies_otherwise_is_unknown_only_where_it_matters() -> None:
    def without(reads: list[Read]) -> list[Read]:
        """The server ignores a parameter, so that it finds nothing."""
        return [Read(read.url, {"resourceType": "Bundle", "total": 0}) for read in reads]

    found = NONE.grounds(P, change=without)
    assert found.grounded is None
    assert found.reading.startswith("unknown: the embedded server would reply otherwise to ")

    def reordered(reads: list[Read]) -> list[Read]:
        """Other totals, orders and links prove nothing, and are no difference."""
        return [Read(read.url, {**read.body, "total": 99, "entry": list(read.body["entry"])[::-1]}) for read in reads]

    assert NONE.grounds(P, change=reordered).grounded is True
    assert ONE.grounds(P, change=reordered).grounded is True


def test_what_a_wrong_agent_had_not_read() -> None:
    def words(*searches: str, case: Case = ONE, pages: int = 100) -> Any:
        return case.missed(*searches, answer="[99]", pages=pages)

    assert words(P) is None
    assert words() == ("never read the potassium of 2024-03-05 08:00", False)
    assert words(case=NONE) == ("never read a complete search of potassium", False)
    assert words(P, case=NONE) is None
    assert words(f"{P}&date=lt2023-01-01", case=NONE) == ("never read a complete search of potassium", False)
    newest = reading(3.3, RECENT, 99, **FORM)
    many = Case(last_day, [*MANY, newest], HOSPITAL)
    assert words(P, case=many, pages=3) is None
    text, page = words(P, case=many, pages=1)
    assert page
    assert text == "read page 1; the potassium of 2024-03-05 08:00 was not on it, and the next page was not opened"
    unread = many.missed(P, answer="[99]", pages=1)
    assert unread is not None
    assert unread.without_data.words == "a page of a search was not opened"
    assert words("Observation?patient=P1&code=2951-2", case=many) == (
        "never read the potassium of 2024-03-05 08:00",
        False,
    )
    assert days(1) == hours(24)
