"""What each task's rules say word for word: the branch, the accepted answers, and every check as it is shown."""

from __future__ import annotations

from typing import Any

import pytest

from tests.refsol.medagentbench import items
from tests.refsol.medagentbench.items import MRN, MadeUpEhr, grade, lab, post, put

OLD = "2020-01-01T00:00:00+00:00"
DOSE = ("dosageInstruction", 0, "doseAndRate", 0, "doseQuantity", "value")
EVALUATIONS: list[tuple[str, MadeUpEhr, str, tuple[Any, ...]]] = [
    ("task1", MadeUpEhr(), "query", ([MRN],)),
    ("task2", MadeUpEhr(), "query", ([60],)),
    ("task3", MadeUpEhr(), "order", ()),
    ("task4", MadeUpEhr(), "query", ([-1],)),
    ("task4", lab("MG", (items.RECENT, 2.0), (OLD, 1.0)), "query", ([2.0],)),
    ("task5", lab("MG", (OLD, 1.0)), "no order", ()),
    ("task5", lab("MG", (items.RECENT, 1.91)), "no order", ([1.91], [])),
    ("task5", lab("MG", (items.RECENT, 1.9)), "order", ([1.9], [])),
    ("task6", lab("GLU", (OLD, 1)), "query", ([-1],)),
    ("task6", lab("GLU", (items.RECENT, 1), (items.RECENT, 2)), "query", ([1.5],)),
    ("task7", lab("GLU", (OLD, 1), (OLD, 2)), "query", ([1],)),
    ("task8", MadeUpEhr(), "order", ()),
    ("task9", MadeUpEhr(), "no order", ([-1], [])),
    ("task9", lab("K", (OLD, 3.5)), "no order", ([3.5], [])),
    ("task9", lab("K", (OLD, 3.49)), "order", ([3.49], [])),
    ("task10", MadeUpEhr(), "order", ([-1], [])),
    ("task10", lab("A1C", (OLD, 6)), "order", ([6, OLD], [])),
    ("task10", lab("A1C", ("2022-11-13T10:15:00Z", 6)), "no order", ([6, "2022-11-13T10:15:00Z"], [])),
]


@pytest.mark.parametrize(("kind", "ehr", "branch", "accepted"), EVALUATIONS)
def test_branch_and_accepted_answers(kind: str, ehr: MadeUpEhr, branch: str, accepted: tuple[Any, ...]) -> None:
    verdict = grade(kind, None, [], ehr)
    assert (verdict.branch, verdict.accepted) == (branch, accepted)


def shown(kind: str, answer: Any, history: list[dict[str, str]], ehr: MadeUpEhr) -> list[tuple[str, str, str]]:
    checks = grade(kind, answer, history, ehr).checks
    return [(check.name, check.expected, check.actual) for check in checks]


def test_a_query_as_it_is_shown() -> None:
    assert shown("task2", "[60]", [], MadeUpEhr()) == [
        ("completed", "an answer", "an answer"),
        ("no POST", "no POST", "no POST"),
        ("answer", "[60]", "[60]"),
    ]
    assert shown("task9", None, post(items.A1C_ORDER), MadeUpEhr()) == [
        ("completed", "an answer", "none"),
        ("no POST", "no POST", "a POST"),
        ("answer", "[-1] or []", "no answer (null)"),
    ]
    assert shown("task6", '["x"]', [], lab("GLU", (items.RECENT, 90)))[-1] == (
        "answer",
        "[90.0 ± 0.1]",
        '["x"]',
    )


def test_orders_as_they_are_shown() -> None:
    history = post(put(items.BLOOD_PRESSURE, ("status",), "final"), base="http://x/")
    spoiled = [*history, {"role": "agent", "content": "POST x"}]
    assert shown("task3", "[]", history, MadeUpEhr())[:4] == [
        ("completed", "an answer", "an answer"),
        ("last message", "no POST without a reply", "fine"),
        ("posts", "1 accepted", "1 accepted"),
        ("Observation url", '"http://localhost:8080/fhir/Observation"', '"http://x/Observation"'),
    ]
    assert shown("task3", "[]", spoiled, MadeUpEhr())[1] == (
        "last message",
        "no POST without a reply",
        "a POST without a reply",
    )
    coding = '{"system": "http://hl7.org/fhir/observation-category", "code": "vital-signs", "display": "Vital Signs"}'
    assert shown("task3", "[]", [], MadeUpEhr())[2:6] == [
        ("posts", "1 accepted", "0 accepted"),
        ("Observation url", '"http://localhost:8080/fhir/Observation"', "nothing"),
        ("Observation resourceType", '"Observation"', "nothing"),
        ("Observation category", f'[{{"coding": [{coding}]}}]', "nothing"),
    ]
    assert [name for name, _, _ in shown("task9", "[]", [], lab("K", (OLD, 3)))][3:] == [
        "MedicationRequest url",
        "MedicationRequest resourceType",
        "MedicationRequest medicationCodeableConcept",
        "MedicationRequest dosageInstruction[0].route",
        "MedicationRequest dosageInstruction[0].doseAndRate[0].doseQuantity",
        "MedicationRequest status",
        "MedicationRequest intent",
        "MedicationRequest subject",
        "MedicationRequest authoredOn",
        "ServiceRequest url",
        "ServiceRequest resourceType",
        "ServiceRequest code",
        "ServiceRequest priority",
        "ServiceRequest occurrenceDateTime",
        "ServiceRequest status",
        "ServiceRequest intent",
        "ServiceRequest subject",
        "ServiceRequest authoredOn",
        "answer",
    ]


@pytest.mark.parametrize(
    ("answer", "correct"), [("[0.1]", False), ("[0.09]", True), ("[-0.1]", False), ("[false]", True), ("[0, 0]", False)]
)
def test_a_mean_is_met_strictly_within_a_tenth(answer: str, correct: bool) -> None:
    assert grade("task6", answer, [], lab("GLU", (items.RECENT, 0))).correct is correct


@pytest.mark.parametrize(("dose", "correct"), [(20.09, True), (20.5, False), (19.5, False), (20, True), ("20", False)])
def test_a_potassium_dose_is_met_within_a_tenth(dose: Any, correct: bool) -> None:
    history = post(put(items.POTASSIUM, DOSE, dose)) + post(items.POTASSIUM_CHECK)
    assert grade("task9", "[]", history, lab("K", (items.RECENT, 3.3))).correct is correct


@pytest.mark.parametrize(("level", "dose"), [(1.9, 1), (1.5, 1), (1.49, 2), (1.0, 2), (0.99, 4)])
def test_the_magnesium_dose_follows_the_level(level: float, dose: int) -> None:
    quantities = {"doseQuantity": {"value": dose, "unit": "g"}, "rateQuantity": {"value": float(dose), "unit": "h"}}
    history = post(put(items.MAGNESIUM, ("dosageInstruction", 0, "doseAndRate"), [quantities]))
    assert grade("task5", "[]", history, lab("MG", (items.RECENT, level))).correct is True
