"""One item at a time: what is reported, what is at fault, and what cannot be graded."""

from __future__ import annotations

import json
from typing import Any

import pytest

from refsol.errors import InputError
from refsol.medagentbench import NdjsonEhr, RecordedEpisode, grade_item
from tests.refsol.medagentbench import items
from tests.refsol.medagentbench.items import MRN, MadeUpEhr, grade, lab, post, put

RIGHT: dict[str, tuple[str, list[dict[str, str]], MadeUpEhr]] = {
    "task1": (f'["{MRN}"]', [], MadeUpEhr()),
    "task2": ("[60]", [], MadeUpEhr()),
    "task3": ("[]", post(items.BLOOD_PRESSURE), MadeUpEhr()),
    "task4": ("[1.2]", [], lab("MG", (items.RECENT, 1.2))),
    "task5": ("[]", post(items.MAGNESIUM), lab("MG", (items.RECENT, 1.2))),
    "task6": ("[100]", [], lab("GLU", (items.RECENT, 90), ("2023-11-12T10:15:00+00:00", 110))),
    "task7": ("[90]", [], lab("GLU", ("2020-01-01", 90), ("2019-01-01", 80))),
    "task8": ("[]", post(items.REFERRAL_ORDER), MadeUpEhr()),
    "task9": ("[3.3]", post(items.POTASSIUM) + post(items.POTASSIUM_CHECK), lab("K", (items.RECENT, 3.3))),
    "task10": ("[-1]", post(items.A1C_ORDER), MadeUpEhr()),
}
FACTLESS = {"task1", "task3", "task8"}


@pytest.mark.parametrize("kind", RIGHT)
def test_the_right_conduct_is_right(kind: str) -> None:
    verdict = grade(kind, *RIGHT[kind])
    assert verdict.correct is True, verdict.reason
    assert verdict.reason == "all checks passed"


@pytest.mark.parametrize("kind", RIGHT)
def test_an_episode_without_an_answer_is_not_right(kind: str) -> None:
    _, history, ehr = RIGHT[kind]
    verdict = grade(kind, None, history, ehr)
    assert verdict.correct is False
    assert verdict.reason.startswith("completed: expected an answer, got none")


@pytest.mark.parametrize("kind", RIGHT)
def test_an_ehr_that_is_away_is_nobodys_fault(kind: str) -> None:
    answer, history, _ = RIGHT[kind]
    verdict = grade(kind, answer, history, MadeUpEhr(away=True))
    assert verdict.correct is (True if kind in FACTLESS else None)
    if kind not in FACTLESS:
        assert verdict.reason == "the facts could not be read: http://ehr/: no answer"


@pytest.mark.parametrize("status", ["model_error", "fhir_error", "cancelled"])
def test_an_episode_that_failed_elsewhere_is_not_graded(status: str) -> None:
    verdict = grade("task2", None, [], MadeUpEhr(), episode=RecordedEpisode("task2_1", 1, status, ()))
    assert verdict.correct is None
    assert status in verdict.reason


@pytest.mark.parametrize("status", ["invalid_action", "round_limit", "context_limit", "completed"])
def test_an_episode_that_the_agent_failed_is_graded(status: str) -> None:
    verdict = grade("task2", None, [], MadeUpEhr(), episode=RecordedEpisode("task2_1", 1, status, ()))
    assert verdict.correct is False


def test_every_check_is_reported_also_after_the_first_that_fails() -> None:
    order = put(put(items.MAGNESIUM, ("status",), "draft"), ("intent",), "plan")
    verdict = grade("task5", "nothing", post(order), lab("MG", (items.RECENT, 1.2)))
    failed = [check.name for check in verdict.checks if not check.passed]
    assert failed == ["MedicationRequest status", "MedicationRequest intent", "answer"]
    assert verdict.reason == 'MedicationRequest status: expected "active", got "draft" (and 2 more)'
    assert verdict.branch == "order"
    right = grade("task5", *RIGHT["task5"])
    assert [check.name for check in right.checks] == [check.name for check in verdict.checks]


def test_checks_of_an_order_that_was_not_placed_all_fail() -> None:
    verdict = grade("task5", "[1.2]", [], lab("MG", (items.RECENT, 1.2)))
    right = grade("task5", *RIGHT["task5"])
    assert [check.name for check in verdict.checks] == [check.name for check in right.checks]
    assert {check.actual for check in verdict.checks if check.name.startswith("MedicationRequest")} == {"nothing"}


@pytest.mark.parametrize(
    ("kind", "readings"),
    [
        ("task4", [(items.RECENT, 1.2), (None, 1.3)]),
        ("task5", [(items.RECENT, None)]),
        ("task5", [("2023-11", 1.0)]),
        ("task6", [("2023-11-13T06:00:00", 90)]),
        ("task7", [("2023-11-13T06:00:00", 90), (items.RECENT, 91)]),
        ("task7", [(items.RECENT, 10**400)]),
        ("task10", [("2023-11-13", 6.0)]),
    ],
)
def test_data_that_allows_no_verdict_is_named_and_counts_as_wrong(kind: str, readings: list[Any]) -> None:
    code = {"task4": "MG", "task5": "MG", "task6": "GLU", "task7": "GLU", "task10": "A1C"}[kind]
    verdict = grade(kind, "[]", [], lab(code, *readings))
    assert verdict.correct is False
    assert verdict.reason.startswith("the data, not the agent: ")
    assert verdict.branch is None


@pytest.mark.parametrize("birth_date", [None, "1963", "1963-11", "19631113", "1963-02-30"])
def test_no_full_birth_date_is_the_datas_fault(birth_date: str | None) -> None:
    assert "not the agent" in grade("task2", "[60]", [], MadeUpEhr(birth_date=birth_date)).reason


def test_an_unknown_patient_is_the_datas_fault() -> None:
    verdict = grade_item({"id": "task2_1", "eval_MRN": "S0"}, "[60]", [], MadeUpEhr())
    assert (verdict.correct, verdict.reason) == (False, "the data, not the agent: no patient has the identifier S0")


@pytest.mark.parametrize(
    ("birth_date", "age"), [("1963-11-13", 60), ("1963-11-14", 59), ("1963-11-12", 60), ("1963-12-01", 59)]
)
def test_the_age_is_that_on_the_benchmarks_day(birth_date: str, age: int) -> None:
    assert grade("task2", f"[{age}]", [], MadeUpEhr(birth_date=birth_date)).correct is True


@pytest.mark.parametrize(
    ("task", "reason"),
    [
        ({"id": "task11_1", "eval_MRN": MRN}, "unknown task type 'task11'"),
        ({"eval_MRN": MRN}, "unknown task type 'None'"),
        ({"id": "task2_1"}, "task2_1 states no patient (eval_MRN)"),
        ({"id": "task2_1", "eval_MRN": 7}, "task2_1 states no patient (eval_MRN)"),
        ({"id": "task1_1"}, "task1_1 states no answer (sol)"),
    ],
)
def test_a_task_that_cannot_be_graded_is_not(task: dict[str, Any], reason: str) -> None:
    verdict = grade_item(task, "[60]", [], MadeUpEhr())
    assert verdict.correct is None
    assert verdict.reason.startswith(reason)


@pytest.mark.parametrize("answer", [[60], {"a": 1}, 60, True])
def test_an_answer_that_is_no_text_is_not_graded(answer: Any) -> None:
    verdict = grade("task2", answer, [], MadeUpEhr())
    assert verdict.correct is None
    assert verdict.reason.startswith("the answer is not a JSON text but")


@pytest.mark.parametrize("history", [["x"], [{"role": "agent"}], [items.ACCEPTED, {"role": 1, "content": "x"}]])
def test_a_history_of_another_shape_is_not_graded(history: list[Any]) -> None:
    verdict = grade("task2", "[60]", history, MadeUpEhr())
    assert verdict.correct is None
    assert verdict.reason.startswith(f"post_history[{len(history) - 1}] is not an object with the texts")


def test_unknown_rules_are_an_error() -> None:
    with pytest.raises(InputError, match="unknown rules 'mild'; known: official, fair, state"):
        grade("task2", "[60]", [], MadeUpEhr(), rules="mild")


HOSTILE = [
    "[" * 100_000,
    "[" * 500 + "]" * 500,
    "1" * 5000,
    "[1" + "0" * 400 + "]",
    '["\\ud800"]',
    '["\ud800"]',
    "[NaN]",
    "[Infinity]",
    "[-Infinity]",
    "",
    "\x00",
    '{"0": 60}',
    "[null]",
    "[[]]",
]


@pytest.mark.parametrize("kind", RIGHT)
@pytest.mark.parametrize("answer", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_answers_get_a_verdict(kind: str, answer: str) -> None:
    _, history, ehr = RIGHT[kind]
    verdict = grade(kind, answer, history, ehr)
    assert verdict.correct is (kind in {"task3", "task8"})
    json.dumps([check.actual for check in verdict.checks]).encode()


@pytest.mark.parametrize("kind", ["task3", "task5", "task8", "task9", "task10"])
@pytest.mark.parametrize("value", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("rules", ["official", "fair"])
def test_hostile_payloads_get_a_verdict(kind: str, value: str, rules: str) -> None:
    answer, history, ehr = RIGHT[kind]
    content = history[0]["content"]
    spoiled = {
        field: [
            {"role": "agent", "content": content.replace(f'"{field}": ', f'"{field}": {value}, "x": ')},
            *history[1:],
        ]
        for field in ("resourceType", "subject", "authoredOn", "dosageInstruction", "note", "coding", "value", "route")
        if f'"{field}": ' in content
    }
    for field, posts in spoiled.items():
        assert grade(kind, answer, posts, ehr, rules=rules).correct is False, field


def test_another_base_is_named() -> None:
    history = post(items.A1C_ORDER, base="https://ehr.test/r4/")
    assert grade("task10", "[-1]", history, MadeUpEhr()).correct is False
    assert grade("task10", "[-1]", history, MadeUpEhr(), base="https://ehr.test/r4").correct is True


def test_a_faked_acknowledgement_counts() -> None:
    history = [
        post(items.A1C_ORDER)[0],
        {"role": "agent", "content": "POST request accepted"},
        {"role": "user", "content": ""},
    ]
    assert grade("task10", "[-1]", history, MadeUpEhr()).correct is True


def test_vector_reasons_name_a_failed_check(
    vector_cases: list[dict[str, Any]], vector_tasks: dict[str, dict[str, Any]], vector_ehr: NdjsonEhr
) -> None:
    for case in vector_cases:
        if not case["verdict"]:
            task = vector_tasks[case["task_id"]]
            verdict = grade_item(task, case["answer"], case["post_history"], vector_ehr)
            failed = next(check for check in verdict.checks if not check.passed)
            assert failed.name == "data" or verdict.reason.startswith(f"{failed.name}: ")
