"""Why an item is wrong: the kind and the reason, from verdict, status and transcript."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refsol.history import HistoryMessage
from refsol.medagentbench import (
    FAILURE_KINDS,
    KIND_WORDS,
    Failure,
    FailureKind,
    NdjsonEhr,
    failure_of,
    grade_item,
    read_recorded,
)
from tests.refsol.medagentbench import items
from tests.refsol.medagentbench.items import MRN, MadeUpEhr, grade, graded, lab, post, put
from tests.refsol.medagentbench.test_official import REAL
from tests.shared_data import DATA, SHARED, need, read_xz

AT, SHOWN = "2023-11-13T05:12:00+00:00", "2023-11-13 05:12"
MG = lab("MG", (AT, 1.8))
LABELS = json.loads((DATA / "medagentbench" / "real_kinds.json").read_text(encoding="utf-8"))["items"]


def observation(code: str, time: str, value: float) -> str:
    resource = {"code": {"coding": [{"code": code}]}, "effectiveDateTime": time, "valueQuantity": {"value": value}}
    return f"The server answers the GET with:\n{json.dumps(resource, indent=2)}"


def said(*contents: str) -> list[HistoryMessage]:
    """A transcript: the prompt, then agent and user in turn."""
    return [
        HistoryMessage("user" if place % 2 == 0 else "agent", text) for place, text in enumerate(("prompt", *contents))
    ]


def fail(
    kind: str, answer: Any, history: list[dict[str, str]], facts: MadeUpEhr, *known: Any, **options: Any
) -> Failure | None:
    return failure_of(grade(kind, answer, history, facts, **options), answer, *known)


READ = said(f"GET http://x/Observation?patient={MRN}&code=MG", observation("MG", AT, 1.8), "FINISH([])")
NOT_READ = said("FINISH([])")
SENTENCE = f"last magnesium 1.8 mg/dL at {SHOWN}, 5 h before now"


def test_what_is_right_has_no_failure() -> None:
    assert fail("task4", "[1.8]", [], MG) is None


def test_every_kind_has_its_words() -> None:
    assert FAILURE_KINDS == get_args(FailureKind) == tuple(KIND_WORDS)


@pytest.mark.parametrize("status", ["model_error", "fhir_error", "grader_error", "benchmark_error", "cancelled"])
def test_infrastructure_is_nobodys_answer(status: str) -> None:
    from refsol.medagentbench import RecordedEpisode

    failure = fail("task4", None, [], MG, status, episode=RecordedEpisode("task4_1", 1, status, ()))
    assert failure is not None
    assert failure.kind == "infrastructure"
    assert fail("task4", "[1.8]", ["x"], MG) is None


def test_data_that_allows_no_answer() -> None:
    failure = fail("task4", "[1.8]", [], lab("MG", (AT, None)))
    assert failure is not None
    assert failure.kind == "data"


@pytest.mark.parametrize(
    ("status", "last", "kind"),
    [
        ("invalid_action", "", "empty-reply"),
        ("invalid_action", " \n", "empty-reply"),
        ("invalid_action", "FINISH([1.8", "cut-reply"),
        ("invalid_action", "<think>The patient", "cut-reply"),
        ("invalid_action", "I would look at the labs.", "invalid-action"),
        ("round_limit", "GET http://x", "round-limit"),
        ("context_limit", "GET http://x", "context-limit"),
        ("agent_error", "GET http://x", "agent-error"),
        ("cut", "FINISH([1.8", "cut-reply"),
        ("cut", "The answer is", "cut-reply"),
        ("empty", "", "empty-reply"),
        ("only_thought", "<think>a", "only-thought"),
        ("time_limit", "GET http://x", "time-limit"),
        ("token_limit", "GET http://x", "token-limit"),
        ("cost_limit", "GET http://x", "cost-limit"),
        ("completed", "GET http://x", "unfinished"),
    ],
)
def test_how_an_episode_ended_comes_first(status: str, last: str, kind: str) -> None:
    failure = fail("task4", None, [], MG, status, said("GET http://x", "{}", last))
    assert failure is not None
    assert failure.kind == kind


def test_without_a_status_an_answer_that_is_missing_is_unfinished() -> None:
    failure = fail("task4", None, [], MG)
    assert failure == Failure("unfinished", KIND_WORDS["unfinished"])
    unanswered = fail("task8", "[]", post(items.REFERRAL_ORDER)[:1], MadeUpEhr(), "round_limit")
    assert unanswered == Failure("round-limit", "the last message is a POST that nothing followed")


@pytest.mark.parametrize(
    ("kind", "facts", "seen", "what"),
    [
        ("task4", MG, NOT_READ, "the magnesium of 2023-11-13 05:12"),
        ("task4", MG, said("GET http://x/Observation?code=K", observation("K", AT, 4), ""), "the magnesium of 2023"),
        ("task5", MG, said("GET http://x/Observation?code=MG", "{}", "FINISH([])"), "the magnesium of 2023"),
        ("task2", MadeUpEhr(), NOT_READ, "the birth date"),
        ("task6", lab("GLU", (AT, 1), (AT, 2)), NOT_READ, "the glucose of 2023-11-13 05:12 (and 1 more of 2)"),
        ("task7", MadeUpEhr(), NOT_READ, "the glucose of the patient"),
        ("task1", MadeUpEhr(), NOT_READ, "the patient"),
    ],
)
def test_what_decides_was_never_read(kind: str, facts: MadeUpEhr, seen: list[HistoryMessage], what: str) -> None:
    failure = fail(kind, '["x"]', [], facts, "completed", seen)
    assert failure is not None
    assert failure.kind == "reading-missed"
    assert failure.reason.startswith(f"never read {what}")


@pytest.mark.parametrize(
    ("kind", "facts", "seen"),
    [
        ("task4", MG, READ),
        ("task7", MadeUpEhr(), said("GET http://x/Observation?code=GLU", "{}", "FINISH([5])")),
        ("task2", MadeUpEhr(), said("GET http://x/Patient", '"birthDate": "1963-11-13"', "FINISH([5])")),
        ("task1", MadeUpEhr(), said("GET http://x/Patient?name=x", f'"value": "{MRN}"', "FINISH([5])")),
    ],
)
@pytest.mark.parametrize("answer", ["[5]", "[]", "[-1, 5]"])
def test_what_decides_was_read_and_another_value_given(
    kind: str, facts: MadeUpEhr, seen: list[HistoryMessage], answer: str
) -> None:
    failure = fail(kind, answer, [], facts, "completed", seen)
    assert failure is not None
    assert failure.kind == "wrong-value"


def test_an_answer_of_none_is_a_reading_missed_where_nothing_shows_it_was_read() -> None:
    assert fail("task4", "[-1]", [], MG) == Failure("reading-missed", f"said that there is none: {SENTENCE}")
    assert fail("task4", "[-1]", [], MG, "completed", READ) == Failure(
        "wrong-value", f"said that there is none: {SENTENCE}"
    )


@pytest.mark.parametrize(
    "answer", ["1.8", '"1.8"', '["1.8"]', "[[1.8]]", '{"value": 1.8}', "1.8 mg/dL", f'[1.8, "{AT}"]', '["1.80 mg/dL"]']
)
def test_the_right_value_in_another_form(answer: str) -> None:
    failure = fail("task4", answer, [], MG)
    assert failure is not None
    assert failure.kind == "wrong-form"
    assert failure.reason.startswith("the value of [1.8], written as ")


@pytest.mark.parametrize(
    "answer", ["[2.8]", "1.8 or 1.9", "[1.8, 5]", "no idea", "", "[NaN]", "NaN", "true", "[18]", "null"]
)
def test_another_value_is_another_value(answer: str) -> None:
    failure = fail("task4", answer, [], MG)
    assert failure is not None
    assert failure.kind == "wrong-value"


@pytest.mark.parametrize(
    ("kind", "answer", "facts", "expected"),
    [
        ("task6", "92.55", lab("GLU", (AT, 90), (AT, 95)), "wrong-form"),
        ("task6", "[92.7]", lab("GLU", (AT, 90), (AT, 95)), "wrong-value"),
        ("task10", f'["{AT}", 6.1]', lab("A1C", (AT, 6.1)), "wrong-form"),
        ("task10", '[6.1, "2023-11-13T05:12:00Z"]', lab("A1C", (AT, 6.1)), "wrong-form"),
        ("task10", "[6.1]", lab("A1C", (AT, 6.1)), "wrong-form"),
        ("task10", '[6.1, "2023-11-12"]', lab("A1C", (AT, 6.1)), "wrong-value"),
        ("task1", MRN, MadeUpEhr(), "wrong-form"),
        ("task1", f'"{MRN}"', MadeUpEhr(), "wrong-form"),
        ("task1", '["S7654321"]', MadeUpEhr(), "wrong-value"),
    ],
)
def test_value_and_form_of_other_types(kind: str, answer: str, facts: MadeUpEhr, expected: str) -> None:
    failure = fail(kind, answer, [], facts)
    assert failure is not None
    assert failure.kind == expected


def test_orders() -> None:
    low, fine = lab("MG", (AT, 1.2)), lab("MG", (AT, 2.0))
    missing = fail("task5", "[]", [], low)
    assert missing is not None
    assert missing.kind == "order-missing"
    assert missing.reason.startswith("1 order was due, none was placed: last magnesium 1.2 mg/dL")
    assert fail("task9", "[]", post(items.POTASSIUM), lab("K", (AT, 3.3))).kind == "order-missing"
    not_due = fail("task5", "[]", post(items.MAGNESIUM), fine)
    assert not_due is not None
    assert not_due.kind == "order-not-due"
    twice = fail("task8", "[]", post(items.REFERRAL_ORDER) * 2, MadeUpEhr())
    assert twice is not None
    assert (twice.kind, twice.reason[:23]) == ("order-not-due", "1 order was due, 2 were")
    spoiled = put(put(items.MAGNESIUM, ("status",), "draft"), ("dosageInstruction", 0, "route"), {"text": "IV"})
    wrong = fail("task5", "[]", post(spoiled), low)
    assert wrong is not None
    assert (wrong.kind, wrong.field) == ("order-wrong", "MedicationRequest dosageInstruction[0].route")
    assert 'MedicationRequest status: "draft" for "active"' in wrong.reason
    right_order = fail("task5", "1.2", post(items.MAGNESIUM), low)
    assert right_order is not None
    assert right_order.kind == "wrong-form"


def test_an_order_placed_without_reading_is_a_reading_missed() -> None:
    failure = fail("task5", "[]", [], lab("MG", (AT, 1.2)), "completed", NOT_READ)
    assert failure is not None
    assert failure.kind == "reading-missed"


@given(st.sampled_from(["task1", "task4", "task6", "task10"]), st.text(st.characters(codec=None), max_size=30))
def test_any_answer_has_a_failure_or_is_right(kind: str, answer: str) -> None:
    verdict = grade(kind, answer, [], lab("MG", (AT, 1.8)))
    failure = failure_of(verdict, answer)
    assert (failure is None) == (verdict.correct is True)
    json.dumps(None if failure is None else failure.reason).encode()


def test_every_wrong_vector_has_one_kind(
    vector_cases: list[dict[str, Any]], vector_tasks: dict[str, dict[str, Any]], vector_ehr: NdjsonEhr
) -> None:
    for case in vector_cases:
        verdict = grade_item(vector_tasks[case["task_id"]], case["answer"], case["post_history"], vector_ehr)
        failure = failure_of(verdict, case["answer"])
        assert (failure is None) == case["verdict"]
        assert failure is None or failure.kind in FAILURE_KINDS


def test_the_real_wrong_items_have_the_kinds_a_reader_gives_them(tmp_path: Path) -> None:
    """With the packed facts and answers; the orders, which were right, are made here."""
    path = tmp_path / "ehr.ndjson"
    path.write_text(read_xz(DATA / "medagentbench" / "rebuilt_ehr.ndjson.xz"), encoding="utf-8")
    facts = NdjsonEhr(path)
    assert len(LABELS) == 25
    for label in LABELS:
        subject = {"reference": f"Patient/{label['eval_MRN']}"}
        history = post({**items.A1C_ORDER, "subject": subject}) * label["orders"]
        verdict = grade_item(label, label["answer"], history, facts)
        failure = failure_of(verdict, label["answer"])
        assert failure is not None
        assert failure.kind == label["kind"], (label["id"], failure)
        assert not set(re.findall(r"\d+\.\d+", label["reason"])) - set(re.findall(r"\d+\.\d+", failure.reason))


def test_the_real_results_file_has_those_kinds() -> None:
    tasks = json.loads(need(SHARED / "medagentbench" / "official" / "test_data_v2.json").read_text(encoding="utf-8"))
    facts = NdjsonEhr(need(SHARED / "medagentbench" / "rebuilt_ehr.ndjson"))
    verdicts = graded(read_recorded(need(REAL), tasks), tasks, facts)
    found = {name: failure.kind for name, (_, failure) in verdicts.items() if failure}
    assert found == {label["id"]: label["kind"] for label in LABELS}
    assert Counter(found.values()) == {"reading-missed": 4, "wrong-form": 19, "wrong-value": 2}


def test_a_reading_missed_names_the_order_that_was_not_due() -> None:
    order = items.MAGNESIUM
    sent = said("POST http://x/MedicationRequest\n" + json.dumps(order), "accepted", "FINISH([])")
    failure = fail("task5", "[]", post(order), lab("MG", (AT, 2.0)), "completed", sent)
    assert failure is not None
    assert failure.kind == "reading-missed"
    assert failure.reason.startswith(
        f"never read the magnesium of {SHOWN}, and sent a POST (MedicationRequest 0338-1715-40), which was not due; "
        "last magnesium 2.0"
    )
    not_due = fail("task5", "[]", post(order), lab("MG", (AT, 2.0)))
    assert not_due is None or not_due.kind == "order-not-due"


def test_swapped_orders_are_called_so() -> None:
    history = post(items.POTASSIUM_CHECK) + post(items.POTASSIUM)
    failure = fail("task9", "[3.3]", history, lab("K", (AT, 3.3)))
    assert failure is not None
    assert failure.kind == "order-wrong"
    assert failure.reason.startswith(
        "the two orders are swapped; MedicationRequest before ServiceRequest is due: last potassium 3.3"
    )


def test_a_post_whose_body_is_not_json_is_counted_as_tried() -> None:
    """In a transcript, and in a results file, which has the posts alone."""
    broken = "POST http://localhost:8080/fhir/ServiceRequest\n{not json"
    transcript = said(broken, "Invalid POST request", "FINISH([])")
    failure = fail("task8", "[]", [], MadeUpEhr(), "completed", transcript)
    assert failure is not None
    assert failure.reason.startswith("1 order was due, none was placed; 1 tried, its body is not JSON: the instruction")
    verdict = grade("task8", "[]", [], MadeUpEhr())
    history = [HistoryMessage("agent", broken), HistoryMessage("user", "Invalid POST request")]
    from_file = failure_of(verdict, "[]", history=history * 2)
    assert from_file is not None
    assert from_file.reason.startswith("1 order was due, none was placed; 2 tried, 2 with a body that is not JSON: the")


@pytest.mark.parametrize(
    ("time", "words"),
    [
        ("2022-11-13T10:00:00+00:00", "older than a year by 0 h 15 min → order HbA1c"),
        ("2022-11-13T10:20:00+00:00", "not older than a year by 0 h 5 min → nothing to order"),
        ("2022-11-12T07:00:00+00:00", "older than a year by 27 h 15 min → order HbA1c"),
        ("2022-10-13T10:00:00+00:00", "older than a year → order HbA1c"),
    ],
)
def test_a_limit_of_a_year_that_is_missed_by_minutes_names_them(time: str, words: str) -> None:
    verdict = grade("task10", "[]", [], lab("A1C", (time, 6.1)))
    assert verdict.because is not None
    assert verdict.because.sentence.endswith(f"; {words}")
