"""Whether an agent could know that its reply is right: items of the benchmarks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from medagent.fhir_data.small_world import reads_of, small_world
from refsol.clinical.known import Surroundings, grounds
from refsol.clinical.neighbours import PATIENT as EXAMPLE
from refsol.clinical.recorded import RecordedSource, recorded
from refsol.clinical.sources import Resources
from refsol.grounds import NO_READING, NOT_GRADED, UNKNOWN, Grounds
from refsol.history import HistoryMessage
from refsol.medagentbench import PUBLISHED, grade_item
from refsol.medagentbench.twins import case_of
from tests.refsol.medagentbench.items import A1C_ORDER, BLOOD_PRESSURE, MRN, RECENT, REFERRAL_ORDER, post
from tests.refsol.psb300.charts import FINISH, grade, medication, procedure
from tests.refsol.psb300.charts import MRN as PSB_MRN

BASE = PUBLISHED.base
OLD = "2021-06-01T08:00:00+00:00"
PATIENT = {"resourceType": "Patient", "id": MRN, "identifier": [{"value": MRN}], "birthDate": "1963-11-13"}
Json = Mapping[str, Any]


def lab(code: str, value: float, time: str = RECENT, number: int = 1, patient: str = MRN) -> dict[str, Any]:
    return {
        "resourceType": "Observation",
        "id": f"{code}{number}",
        "status": "final",
        "code": {"coding": [{"system": "http://loinc.org", "code": code}], "text": code},
        "subject": {"reference": f"Patient/{patient}"},
        "effectiveDateTime": time,
        "valueQuantity": {"value": value, "unit": "u"},
    }


EXAMPLES = {
    f"Observation?code={code}": [lab(code, value, OLD, place, EXAMPLE) for place, value in enumerate(values)]
    for code, values in {
        "MG": (0.8, 1.4, 2.5),
        "GLU": (60.0, 100.0, 400.0),
        "K": (2.5, 4.0, 5.5),
        "A1C": (5.0, 9.0),
    }.items()
}
SURROUNDINGS = Surroundings(small_world, EXAMPLES)


def transcript(data: Sequence[Json], searches: Sequence[str]) -> list[HistoryMessage]:
    """The messages of an agent that sends these GETs to a hospital."""
    messages = []
    with small_world() as world:
        world.put(data)
        for search in searches:
            reply = f"Here:\n{json.dumps(world.get(f'{BASE}{search}'))}\nGo on."
            messages += [HistoryMessage("agent", f"GET {BASE}{search}"), HistoryMessage("user", reply)]
    return messages


def grounded(
    kind: str, answer: str, data: Sequence[Json], *searches: str, posts: Any = (), late: bool = False, **task: Any
) -> Grounds:
    """The grounds of a right item of MedAgentBench; with `late` the reads come after the posts."""
    data = [PATIENT, *data]
    item = {"id": f"{kind}_1", "eval_MRN": MRN, "sol": [MRN], "instruction": "…", **task}
    verdict = grade_item(item, answer, posts, Resources(data))
    assert verdict.correct, verdict.reason
    reads, acted = (
        transcript(data, searches),
        [HistoryMessage(message["role"], message["content"]) for message in posts],
    )
    said = [HistoryMessage("user", "prompt"), *(acted + reads if late else reads + acted)]
    return grounds(verdict, reads_of(said), SURROUNDINGS)


LABS = {"task4": "MG", "task5": "MG", "task6": "GLU", "task7": "GLU", "task9": "K", "task10": "A1C"}
VALUES = {"task4": 2.5, "task5": 2.5, "task6": 90.0, "task7": 90.0, "task9": 4.5, "task10": 6.0}


@pytest.mark.parametrize("kind", list(LABS))
def test_a_value_needs_its_reading(kind: str) -> None:
    code, value = LABS[kind], VALUES[kind]
    data = [lab(code, value), lab("X", 1.0), lab(code, 1.0, patient="S7", number=7)]
    answer = json.dumps([value, RECENT] if kind == "task10" else [value])
    url = f"Observation?patient={MRN}&code={code}"
    assert grounded(kind, answer, data, url).grounded is True
    for search in (
        "",
        f"{url}&date=lt2023-01-01",
        f"Observation?patient={MRN}&code=X",
        f"Observation?patient=S7&code={code}",
    ):
        assert grounded(kind, answer, data, *filter(None, [search])).grounded is False, search


@pytest.mark.parametrize(
    ("kind", "dated"), [("task4", True), ("task5", True), ("task6", True), ("task7", False), ("task9", False)]
)
def test_that_there_is_none_needs_a_search_that_would_show_it(kind: str, dated: bool) -> None:
    url = f"Observation?patient={MRN}&code={LABS[kind]}"
    answer = "[]" if kind in ("task5", "task9") else "[-1]"
    assert grounded(kind, answer, [], url).grounded is True
    assert grounded(kind, answer, [], f"{url}&date=ge2023-11-12").grounded is dated
    assert grounded(kind, answer, [], f"{url}&date=ge2023-11-13").grounded is False
    assert grounded(kind, answer, [], f"Patient?identifier={MRN}").grounded is False


def test_what_is_read_after_an_order_comes_too_late() -> None:
    data, search = [lab("A1C", 6.0, OLD)], f"Observation?patient={MRN}&code=A1C"
    for late in (False, True):
        assert grounded("task10", "[]", data, search, posts=post(A1C_ORDER), late=late).grounded is not late


def test_age_needs_the_birth_date() -> None:
    for search, known in (
        (f"Patient?identifier={MRN}", True),
        (f"Patient/{MRN}", True),
        (f"Patient?identifier={MRN}&_elements=identifier", False),
        ("Patient?identifier=S7", False),
    ):
        assert grounded("task2", "[60]", [], search).grounded is known, search


NAMED = {**PATIENT, "name": [{"family": "Lee", "given": ["Ann-Marie"]}], "birthDate": "1964-03-14"}
WORDS = "What is the MRN of Ann-Marie Lee, born 14 March 1964?"


@pytest.mark.parametrize(
    ("query", "known"),
    [
        ("family=Lee&birthdate=1964-03-14", True),
        ("name=Lee", True),
        ("name=Ann&_elements=identifier,name,birthDate", True),
        (f"_id={MRN}", True),
        ("", True),
        ("family=Lee&given=Ann-Marie&birthdate=1964-03-14&_elements=identifier", True),
        ("family=Lee&_elements=identifier", False),
        (f"_id={MRN}&_elements=birthDate", False),
        ("name=Nobody", False),
    ],
)
def test_a_patient_who_is_there_needs_to_be_seen(query: str, known: bool) -> None:
    task = {"id": "task1_1", "sol": [MRN], "instruction": WORDS}
    data = [NAMED]
    verdict = grade_item(task, f'["{MRN}"]', [], Resources(data))
    found = grounds(verdict, reads_of(transcript(data, [f"Patient?{query}"])), SURROUNDINGS)
    assert found.grounded is known, found.reading


@pytest.mark.parametrize(
    ("query", "known"),
    [
        ("family=Lee&birthdate=1964-03-14", True),
        ("birthdate=1964-03-14", True),
        ("given=ann-marie&family=LEE", True),
        ("family:exact=Lee", True),
        ("family:contains=ee", True),
        ("birthdate=ge1964-03-01&birthdate=le1964-03-31", True),
        ("_count=5000", True),
        ("family=Le", True),
        ("name=Lee", True),
        ("name=Ann", True),
        ("birthdate=1964-03-14&_elements=id", True),
        ("birthdate=1964-03-14&_summary=count", True),
        ("family=Leo", False),
        ("family:exact=X\\,Lee", False),
        ("birthdate=X\\,1964-03-14", False),
        ("family=Ann-Marie", False),
        ("given=What", False),
        ("name=MRN", False),
        ("birthdate=1964-03-14&_offset=5000", False),
        ("birthdate=1964-03-15", False),
        ("identifier=S1", False),
        ("_id=S1", False),
        ("family=Lee&gender=male", False),
        ("family=Lee&active=false", False),
        ("birthdate=lt1964-03-14&family=Lee", False),
    ],
)
def test_a_patient_who_is_not_there_needs_a_search_that_would_find_them(query: str, known: bool) -> None:
    task = {"id": "task1_1", "sol": ["Patient not found"], "instruction": WORDS}
    data = [{**PATIENT, "name": [{"family": "Berg"}]}]
    verdict = grade_item(task, '["Patient not found"]', [], Resources(data))
    found = grounds(verdict, reads_of(transcript(data, [f"Patient?{query}"])), SURROUNDINGS)
    assert found.grounded is known, found.reading


@pytest.mark.parametrize(
    "words",
    [
        "MRN of Ann Lee, born 14 March 1964?",
        "Lee, Ann (DOB 1964-03-14): MRN, please.",
        "Find MRN. Name: Ann Lee. Birth date: March 14, 1964.",
        "Hi, I have Ann Lee on the phone, date of birth 14-Mar-1964. Which MRN is that?",
        "What's the MRN of the patient with name Ann Lee and DOB of 1964-03-14? Otherwise Not Found.",
        "Identify Patient Ann Lee, born 1964-03-14.",
    ],
)
def test_the_name_is_the_one_before_the_birth_date(words: str) -> None:
    task = {"id": "task1_1", "sol": ["Patient not found"], "instruction": words}
    verdict = grade_item(task, '["Patient not found"]', [], Resources([]))
    for query, known in (("given=Ann&family=Lee", True), ("family=Ann", False), ("given=Patient", False)):
        found = grounds(verdict, reads_of(transcript([], [f"Patient?{query}"])), SURROUNDINGS)
        assert found.grounded is known, query


def test_types_whose_text_says_everything_need_no_reading() -> None:
    for kind, order in (("task3", BLOOD_PRESSURE), ("task8", REFERRAL_ORDER)):
        assert grounded(kind, "[]", [], posts=post(order)) == NO_READING


def test_without_reads_or_a_world_nobody_can_tell() -> None:
    task = {"id": "task4_1", "eval_MRN": MRN}
    right, wrong = (grade_item(task, answer, [], Resources([PATIENT])) for answer in ("[-1]", "[7]"))
    assert grounds(right, None, SURROUNDINGS) == UNKNOWN
    assert grounds(right, [], None) == UNKNOWN
    assert grounds(wrong, [], SURROUNDINGS) == Grounds(False)
    ungraded = grade_item({"id": "task4_1"}, "[7]", [], Resources([]))
    assert grounds(ungraded, [], SURROUNDINGS) == NOT_GRADED


def test_recorded_searches_give_the_same_decision() -> None:
    """They contain, of the readings, only those that decide here or on a neighbouring chart."""
    data = [PATIENT, lab("GLU", 80.0, OLD, 1), lab("GLU", 95.0, RECENT, 2)]
    task = {"id": "task7_1", "eval_MRN": MRN}
    results = recorded([(case_of(task, PUBLISHED), ())], Resources(data), complete=False, whole=False)
    source = RecordedSource(results, AssertionError)
    assert list(source.examples) == ["Observation?code=GLU"]
    url = f"Observation?patient={MRN}"
    for search, known in (
        (f"{url}&code=GLU", True),
        (f"{url}&code=GLU&_elements=valueQuantity,effectiveDateTime,code", True),
        (f"{url}&_sort=-date&_count=1", True),
        (f"{url}&code=GLU&_elements=effectiveDateTime", False),
        (f"{url}&code=GLU&date=lt2023-01-01", False),
    ):
        reads = reads_of(transcript(data, [search]))
        for facts in (Resources(data), source):
            verdict = grade_item(task, "[95]", [], facts)
            for surroundings in (SURROUNDINGS, Surroundings(small_world, source.examples)):
                assert grounds(verdict, reads, surroundings).grounded is known, search


def psb_grounded(kind: int, chart: Sequence[Json], examples: Mapping[str, Sequence[Json]], *searches: str) -> Grounds:
    """The grounds of an item of psb-300 to which nothing is due, or that is right by luck."""
    verdict = grade(kind, list(chart), [FINISH])
    assert verdict.correct, verdict.reason
    return grounds(verdict, reads_of(transcript(chart, searches)), Surroundings(small_world, examples))


@pytest.mark.parametrize(
    ("search", "known"),
    [
        (f"Procedure?patient={PSB_MRN}&code=90686", True),
        (f"Procedure?subject=Patient/{PSB_MRN}", True),
        (f"Procedure?patient={PSB_MRN}&date=ge2000&_elements=performed,code", True),
        (f"Patient/{PSB_MRN}/$everything", True),
        (f"Procedure?patient={PSB_MRN}&code=http://loinc.org|90686", False),
        (f"Procedure?patient={PSB_MRN}&code=90687", False),
        ("Procedure?patient=S7654321&code=90686", False),
        (f"Observation?patient={PSB_MRN}", False),
    ],
)
def test_a_procedure(search: str, known: bool) -> None:
    patient = {"resourceType": "Patient", "id": PSB_MRN}
    done = {**procedure("90686", 10), "status": "completed"}
    examples = {"Procedure?code=90686": [{**done, "subject": {"reference": f"Patient/{EXAMPLE}"}}]}
    assert psb_grounded(9, [patient, done], examples, search).grounded is known


def test_an_absent_drug_needs_all_active_orders() -> None:
    patient = {"resourceType": "Patient", "id": PSB_MRN}
    order = {**medication("metformin 500 mg"), "intent": "order"}
    words = "hydromorphone or oxycodone or fentanyl or hydrocodone or morphine"
    opioid = {**medication("morphine 5 mg"), "intent": "order", "subject": {"reference": f"Patient/{EXAMPLE}"}}
    examples = {f"MedicationRequest: {words}": [opioid]}
    for status, known in (("active", True), ("stopped", False)):
        search = f"MedicationRequest?patient={PSB_MRN}&status={status}"
        assert psb_grounded(8, [patient, order], examples, search).grounded is known
