"""Right for the right reason: what each type must have read, and what blind agents get right."""

from __future__ import annotations

import json
from typing import Any

import pytest

from refsol.history import HistoryMessage
from refsol.medagentbench import PUBLISHED, Grounds, baselines, grade_item, grounds
from tests.refsol.medagentbench.items import (
    A1C_ORDER,
    BLOOD_PRESSURE,
    MRN,
    RECENT,
    REFERRAL_ORDER,
    MadeUpEhr,
    lab,
    post,
)

BASE = PUBLISHED.base
OLD = "2021-06-01T08:00:00+00:00"
NONE = {"resourceType": "Bundle", "total": 0}
PATIENT = {"resourceType": "Patient", "id": MRN, "birthDate": "1963-11-13"}


def observation(code: str, time: str, patient: str = MRN) -> dict[str, Any]:
    return {
        "resourceType": "Observation",
        "code": {"coding": [{"code": code}]},
        "subject": {"reference": f"Patient/{patient}"},
        "effectiveDateTime": time,
        "valueQuantity": {"value": 2},
    }


def bundle(*resources: dict[str, Any]) -> dict[str, Any]:
    return {"resourceType": "Bundle", "entry": [{"resource": one} for one in resources]}


def grounded(
    kind: str,
    answer: str,
    ehr: MadeUpEhr,
    *reads: tuple[str, dict[str, Any]],
    posts: list[dict[str, str]] | None = None,
    late: bool = False,
    **task: Any,
) -> Grounds:
    """The grounds of a right item of the made-up patient; with `late` the reads come after the posts."""
    asked = {"id": f"{kind}_1", "eval_MRN": MRN, "sol": [MRN], "instruction": "Made up.", **task}
    verdict = grade_item(asked, answer, posts or [], ehr)
    assert verdict.correct, verdict.reason
    acted = [HistoryMessage(one["role"], one["content"]) for one in posts or []]
    read = []
    for url, body in reads:
        read += [
            HistoryMessage("agent", f"GET {BASE}{url}"),
            HistoryMessage("user", f"Here:\n{json.dumps(body)}\nGo on."),
        ]
    said = [*acted, *read] if late else [*read, *acted]
    return grounds(verdict, [HistoryMessage("user", "prompt"), *said, HistoryMessage("agent", "FINISH([])")])


LABS = {"task4": "MG", "task5": "MG", "task6": "GLU", "task7": "GLU", "task9": "K", "task10": "A1C"}
VALUES = {"task4": 2.5, "task5": 2.5, "task6": 90, "task7": 90, "task9": 4.5, "task10": 6}


@pytest.mark.parametrize("kind", list(LABS))
def test_a_value_needs_its_reading(kind: str) -> None:
    code, value = LABS[kind], VALUES[kind]
    ehr = lab(code, (RECENT, value))
    answer = json.dumps([value, RECENT] if kind == "task10" else [value])
    url = f"Observation?patient={MRN}&code={code}"
    assert grounded(kind, answer, ehr, (url, bundle(observation(code, RECENT)))).grounded is True
    missing = [
        [],
        [(url, NONE)],
        [(url, bundle(observation(code, OLD)))],
        [(url, bundle(observation("X", RECENT)))],
        [(url, bundle(observation(code, RECENT, "S7")))],
    ]
    for reads in missing:
        found = grounded(kind, answer, ehr, *reads)
        assert (found.grounded, found.reading) == (False, f"had not read {code} at {RECENT}")


@pytest.mark.parametrize(
    ("kind", "dated"), [("task4", True), ("task5", True), ("task6", True), ("task7", False), ("task9", False)]
)
def test_that_there_is_none_needs_a_whole_search(kind: str, dated: bool) -> None:
    url = f"Observation?patient={MRN}&code={LABS[kind]}"
    answer = "[]" if kind in ("task5", "task9") else "[-1]"
    assert grounded(kind, answer, MadeUpEhr(), (url, NONE)).grounded is True
    assert grounded(kind, answer, MadeUpEhr(), (f"{url}&date=ge2023-11-12", NONE)).grounded is dated
    assert grounded(kind, answer, MadeUpEhr(), (f"{url}&date=ge2023-11-13", NONE)).grounded is False
    missing = grounded(kind, answer, MadeUpEhr(), (f"Patient?identifier={MRN}", bundle(PATIENT)))
    assert missing == Grounds(False, f"had not read a complete search of {LABS[kind]}")


def test_every_reading_of_a_mean_is_needed() -> None:
    times = (RECENT, "2023-11-13T07:00:00+00:00")
    ehr = lab("GLU", (times[0], 80), (times[1], 100))
    url = f"Observation?patient={MRN}"
    both = [(f"{url}&_count=1", bundle(observation("GLU", time))) for time in times]
    assert grounded("task6", "[90]", ehr, *both).grounded is True
    assert grounded("task6", "[90]", ehr, both[0]).reading == f"had not read GLU at {times[1]}"


def test_what_is_read_after_an_order_comes_too_late() -> None:
    ehr = lab("A1C", (OLD, 6))
    read = (f"Observation?patient={MRN}&code=A1C", bundle(observation("A1C", OLD)))
    for late in (False, True):
        assert grounded("task10", "[]", ehr, read, posts=post(A1C_ORDER), late=late).grounded is not late


def test_age_needs_the_birth_date() -> None:
    for body, expected in ((bundle(PATIENT), True), (bundle({**PATIENT, "birthDate": ""}), False), (NONE, False)):
        assert grounded("task2", "[60]", MadeUpEhr(), (f"Patient?identifier={MRN}", body)).grounded is expected
    assert grounded("task2", "[60]", MadeUpEhr(), (f"Patient/{MRN}", PATIENT)).grounded is True


def test_a_patient_who_is_there_needs_to_be_seen() -> None:
    known = {**PATIENT, "id": "1", "identifier": [{"value": MRN}]}
    assert grounded("task1", f'["{MRN}"]', MadeUpEhr(), ("Patient?name=x", bundle(known))).grounded is True
    assert (
        grounded("task1", f'["{MRN}"]', MadeUpEhr(), ("Patient?name=x", NONE)).reading == f"had not read Patient {MRN}"
    )


WORDS = "What is the MRN of Ann-Marie Lee, born 14 March 1964?"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("family=Lee&birthdate=1964-03-14", True),
        ("birthdate=1964-03-14", True),
        ("given=ann-marie&family=LEE", True),
        ("family:exact=Lee", True),
        ("birthdate=ge1964-03-01&birthdate=le1964-03", True),
        ("_count=5000", True),
        ("family=Le", True),
        ("family=Leo", False),
        ("family:exact=X%5C,Lee", False),
        ("birthdate=X%5C,1964-03-14", False),
        ("family=Ann-Marie", False),
        ("given=What", False),
        ("name=Lee", False),
        ("name=MRN", False),
        ("birthdate=1964-03-14&_offset=5000", False),
        ("birthdate=1964-03-14&_elements=id", False),
        ("birthdate=1964-03-15", False),
        ("identifier=S1", False),
        ("_id=S1", False),
        ("family=Lee&gender=male", False),
        ("family=Lee&_summary=count", False),
    ],
)
def test_a_patient_who_is_not_there_needs_a_search_by_what_the_task_says(query: str, expected: bool) -> None:
    nobody = {"sol": ["Patient not found"], "instruction": WORDS}
    body = {"resourceType": "Bundle", "total": 4}
    found = grounded("task1", '["Patient not found"]', MadeUpEhr(), (f"Patient?{query}", body), **nobody)
    assert found.grounded is expected
    page = {**body, "link": [{"relation": "next", "url": f"{BASE}?_getpages=1"}]}
    found = grounded("task1", '["Patient not found"]', MadeUpEhr(), (f"Patient?{query}", page), **nobody)
    assert found.grounded is False, "a page is missing"


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
    nobody = {"sol": ["Patient not found"], "instruction": words}
    for query, expected in (("given=Ann&family=Lee", True), ("family=Ann", False), ("given=Patient", False)):
        found = grounded("task1", '["Patient not found"]', MadeUpEhr(), (f"Patient?{query}", NONE), **nobody)
        assert found.grounded is expected, query


def test_types_whose_text_says_everything_need_no_reading() -> None:
    for kind, order in (("task3", BLOOD_PRESSURE), ("task8", REFERRAL_ORDER)):
        assert grounded(kind, "[]", MadeUpEhr(), posts=post(order)) == Grounds(None, "needs no reading")


def test_without_a_transcript_nobody_can_tell() -> None:
    task = {"id": "task4_1", "eval_MRN": MRN, "instruction": "Made up."}
    verdict = grade_item(task, "[-1]", [], MadeUpEhr())
    assert grounds(verdict, []) == Grounds(None, "unknown")
    said = [HistoryMessage("user", "Made up."), HistoryMessage("agent", "FINISH([-1])")]
    assert grounds(verdict, said) == Grounds(False, "had not read a complete search of MG")


def test_a_wrong_item_is_not_grounded_and_one_that_is_not_graded_says_nothing() -> None:
    task = {"id": "task4_1", "eval_MRN": MRN}
    said = [HistoryMessage("user", "prompt")]
    assert grounds(grade_item(task, "[7]", [], MadeUpEhr()), said) == Grounds(False)
    assert grounds(grade_item(task, "[7]", [], MadeUpEhr(away=True)), said) == Grounds(None)


def test_blind_places_the_orders_that_the_text_spells_out_where_they_are_right_most_often() -> None:
    words = f"{MRN}: order {PUBLISHED.a1c_test}; record {PUBLISHED.blood_pressure}; refer {PUBLISHED.referral_code}: "
    text = {"instruction": words + PUBLISHED.referral, "eval_MRN": MRN}
    kinds = ("task3", "task8", "task10")
    tasks = [{"id": f"{kind}_{number}", **text} for kind in kinds for number in range(2)]
    found = baselines(tasks, MadeUpEhr())
    assert [found.outcomes(task["id"]) for task in tasks] == [{"nop": False, "constant": False, "blind": True}] * 6
    recent = baselines(tasks, lab("A1C", (RECENT, 6)))
    assert recent.behaviours("blind")["task10"].orders == ()
    silent = [{**task, "instruction": f"{MRN}: as always"} for task in tasks]
    assert not any(baselines(silent, MadeUpEhr()).outcomes(task["id"])["blind"] for task in silent)


def test_constant_gives_the_most_frequent_right_answer_of_each_type() -> None:
    tasks = [
        {"id": "task1_1", "eval_MRN": MRN, "sol": [MRN]},
        {"id": "task1_2", "sol": ["Patient not found"]},
        *({"id": f"{kind}_1", "eval_MRN": MRN} for kind in ("task2", "task3", "task5")),
    ]
    constant = baselines(tasks, MadeUpEhr()).behaviours("constant")
    assert {kind: one.answer for kind, one in constant.items()} == {
        "task1": f'["{MRN}"]',
        "task2": "[60]",
        "task3": "[]",
        "task5": "[]",
    }


def test_blind_guesses_a_dose() -> None:
    text = {"instruction": f"{MRN} {PUBLISHED.magnesium_drug} {PUBLISHED.potassium_drug} {PUBLISHED.potassium_test}"}
    tasks = [{"id": f"{kind}_1", "eval_MRN": MRN, **text} for kind in ("task5", "task9")]
    low = MadeUpEhr({**lab("MG", (RECENT, 1.2)).readings, **lab("K", (RECENT, 3.1)).readings})
    found = baselines(tasks, low)
    quantities = [
        json.loads(one.orders[0])["dosageInstruction"][0]["doseAndRate"][0]
        for one in found.behaviours("blind").values()
    ]
    assert [one["doseQuantity"] for one in quantities] == [{"value": 2, "unit": "g"}, {"value": 40, "unit": "mEq"}]
    assert all(found.outcomes(task["id"])["blind"] for task in tasks)
