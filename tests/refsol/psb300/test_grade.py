"""Single rules of psb-300: clocks, charts, verdicts that cannot be given, and what a verdict says."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refsol.clinical.known import Missed
from refsol.errors import InputError
from refsol.history import read_messages
from refsol.psb300 import TYPES, Resources, RuleConstants, SearchEhr, failure_of, grade_item, stated_now
from tests.refsol.psb300.charts import (
    CLOCK,
    FINISH,
    MRN,
    NOW,
    grade,
    medication,
    order,
    posts,
    procedure,
    reading,
    resource,
    task,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    ["resourceType", "status", "intent", "subject", "code", "medicationCodeableConcept", "note", "reasonCode"]
)


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        ("It's 2023-03-06T16:30:00+00:00 now", "2023-03-06T16:30:00+00:00"),
        ("IT IS 2023-03-06T16:30:00+00:00 now; its  2023-03-07T16:30:00-05:00now!", "2023-03-07T16:30:00-05:00"),
        ("its 2023-03-06T16:30:00.5+00:00 NOW. 2023-04-01T00:00:00+00:00", "2023-03-06T16:30:00.500000+00:00"),
        ("it's 2023-03-06T16:30:00+00:00 nowhere, 2023-04-01T00:00:00+01:00", "2023-04-01T00:00:00+01:00"),
        ("It's 2023-03-06T16:30:00Z now", None),
        ("It's 2023-08-15:00:00+00:00 now", None),
        ("It's 2023-02-30T10:00:00+00:00 now. Seen 2023-02-16T01:01:00+00:00.", None),
        ("", None),
    ],
)
def test_now_is_read_from_the_context(context: str, expected: str | None) -> None:
    assert stated_now(context) == (datetime.fromisoformat(expected) if expected else None)


def test_a_damaged_time_in_a_context_leaves_the_default_now() -> None:
    chart = Resources([procedure("90686", 10)])
    damaged = task(9, context="It's 2023-08-15:00:00+00:00 now.")
    assert grade_item(damaged, [FINISH], "[]", chart, clock=CLOCK).correct is True
    later = RuleConstants(default_now=NOW + timedelta(days=500))
    assert grade_item(damaged, [FINISH], "[]", chart, clock=CLOCK, constants=later).correct is False


def test_task1_goes_by_the_clock_in_official_and_by_the_context_in_fair() -> None:
    chart = [procedure("IMGCT0491", 10)]
    assert grade(1, chart, [FINISH]).correct is False
    assert grade(1, chart, [FINISH], clock=NOW).correct is True
    assert grade(1, chart, [FINISH], rules="fair").correct is True


def test_without_a_cut_off_everything_counts() -> None:
    loaded_today = {**procedure("90686", 10), "meta": {"lastUpdated": "2026-01-01T00:00:00Z"}}
    assert grade(9, [loaded_today], [FINISH]).correct is False
    assert grade(9, [loaded_today], [FINISH], constants=RuleConstants(cut_off=None)).correct is True


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"id": "task11_1"}, "unknown task type 'task11'"),
        ({"eval_MRN": None}, "states no patient"),
        ({"context": 5}, "context is not text"),
    ],
)
def test_a_task_that_cannot_be_graded_says_why(changes: dict[str, Any], reason: str) -> None:
    verdict = grade_item({**task(9), **changes}, [FINISH], "[]", Resources([]), clock=CLOCK)
    assert verdict.correct is None
    assert reason in verdict.reason


def test_a_history_without_roles_is_not_graded() -> None:
    verdict = grade(9, [], [{"content": "FINISH([])"}])
    assert (verdict.correct, verdict.reason) == (
        None,
        "post_history[0] is not an object with the texts role and content",
    )


def test_unknown_rules_are_an_error() -> None:
    with pytest.raises(InputError, match="known: official, fair"):
        grade(9, [], [FINISH], rules="fairer")


def test_because_names_what_decides() -> None:
    verdict = grade(9, [procedure("90686", 400)], [FINISH])
    assert verdict.because is not None
    sentence = (
        "last influenza vaccine at 2022-10-03 22:47, 400 days before now; older than 365 days → order influenza vaccine"
    )
    assert verdict.because.sentence == sentence
    assert [(fact.name, fact.time) for fact in verdict.because.facts] == [("Procedure/1", "2022-10-03T22:47:00+00:00")]
    assert verdict.reason == "posts: expected 1 accepted, got 0 accepted"


@pytest.mark.parametrize(
    ("kind", "chart", "history", "result", "failure"),
    [
        (9, [procedure("90686", 400)], [FINISH], "[]", "order-missing"),
        (9, [procedure("90686", 10)], posts(order()), "[]", "order-not-due"),
        (9, [], posts(order(), order()), "[]", "order-not-due"),
        (9, [], posts(order(code={"text": "tetanus"})), "[]", "order-wrong"),
        (9, [], posts(order(status=None)), "[]", "order-wrong"),
        (9, [], posts(order())[:1], "[]", "unfinished"),
        (9, [{**procedure("90686", 10), "performedDateTime": "soon"}], [FINISH], "[]", "data"),
        (3, [reading("HEARTRATE", 80, 0.1)], [FINISH], "[80, 90]", "wrong-value"),
    ],
)
def test_a_wrong_item_has_a_kind(kind: int, chart: Any, history: Any, result: Any, failure: str) -> None:
    verdict = grade(kind, chart, history, result)
    assert verdict.correct is False
    found = failure_of(verdict, result)
    assert found is not None
    assert found.kind == failure


def test_what_was_not_read_comes_before_a_wrong_order() -> None:
    verdict = grade(9, [procedure("90686", 400)], [FINISH])
    for page, kind in ((False, "reading-missed"), (True, "page-not-opened")):
        unread = Missed("never read Procedure/1", page)
        failure = failure_of(verdict, "[]", "completed", read_messages([FINISH]), unread)
        assert failure is not None
        assert failure.kind == kind
        assert failure.reason.startswith("never read Procedure/1: last influenza vaccine")


def test_a_right_item_has_no_failure() -> None:
    assert failure_of(grade(9, [procedure("90686", 10)], [FINISH]), "[]") is None


@given(
    kind=st.integers(1, 10),
    payload=st.dictionaries(FIELDS, JSON, max_size=5) | JSON,
    extra=st.dictionaries(st.sampled_from(["meta", "performedDateTime", "status", "code"]), JSON, max_size=3),
    result=JSON,
)
def test_no_chart_and_no_reply_raises(kind: int, payload: Any, extra: dict[str, Any], result: Any) -> None:
    chart = [{**resource(name), **extra} for name in ("Procedure", "MedicationRequest", "Observation", "Condition")] + [
        medication("morphine"),
        reading("QTCINTERVAL", 510, 1),
        reading("TSH", 5, 1),
        reading("FT4", 1, 1),
    ]
    for rules in ("official", "fair"):
        verdict = grade(kind, chart, posts(payload), result, rules=rules)
        assert verdict.correct in (True, False)


class TestFacts:
    def test_resources_come_in_stored_order_whatever_the_codes(self) -> None:
        facts = Resources([procedure("B", 1, "1"), procedure("A", 2, "2"), procedure("B", 3, "3"), resource("Patient")])
        assert [match["id"] for match in facts.search("Procedure", patient=MRN, code="A,B")] == ["1", "2", "3"]
        assert [match["id"] for match in facts.search("Procedure", patient=MRN, code="B")] == ["1", "3"]
        assert facts.search("Procedure", patient="S0000000") == []

    def test_status_is_compared(self) -> None:
        facts = Resources([medication("a", "1"), medication("b", "2", status="stopped")])
        assert [match["id"] for match in facts.search("MedicationRequest", patient=MRN, status="stopped")] == ["2"]

    def test_a_server_is_asked_once_a_search(self) -> None:
        asked = []

        def ask(url: str) -> tuple[int, str]:
            asked.append(url)
            entries = [{"resource": procedure("90686", 10)}]
            return 200, json.dumps({"resourceType": "Bundle", "entry": entries})

        facts = SearchEhr("http://x/fhir", ask)
        for _ in range(2):
            assert grade_item(task(9), [FINISH], "[]", facts, clock=CLOCK).correct is True
        assert asked == [f"http://x/fhir/Procedure?patient={MRN}&code=90686&_count=5000&_format=json"]

    def test_a_server_that_fails_leaves_the_item_ungraded(self) -> None:
        verdict = grade_item(task(9), [FINISH], "[]", SearchEhr("http://x/fhir", lambda _: (500, "")), clock=CLOCK)
        assert verdict.correct is None
        assert "status 500" in verdict.reason


def test_every_type_is_evaluated_on_an_empty_chart() -> None:
    verdicts = {name: grade(number, [], [FINISH]) for number, name in enumerate(TYPES, 1)}
    assert all(verdict.needed for verdict in verdicts.values())
    due = [name for name, verdict in verdicts.items() if verdict.branch == "order"]
    assert due == ["task1", "task2", "task9", "task10"]


def test_every_type_has_a_name_in_words() -> None:
    assert len({kind.title for kind in TYPES.values()}) == 10
