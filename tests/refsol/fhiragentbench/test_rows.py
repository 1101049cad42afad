"""Retrieval, answers, scores of rows, and figures."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refsol.errors import InputError
from refsol.fhiragentbench import (
    Output,
    Question,
    ResourcesError,
    RowPart,
    RuleName,
    by_types,
    decide,
    figures,
    grade_row,
    grouped,
    read_judge,
    retrieve,
    rule_name,
    settle,
)

TEMPLATE = "What is the gender of patient {patient_id}?"


def question(ids: dict[str, list[str]] | None = None, answer: str = "[[1]]", id: str = "q1") -> Question:
    return Question(id, "How many?", answer, {"Observation": ["a", "b"]} if ids is None else ids, TEMPLATE)


def test_paper_and_a2a_give_recall_by_share() -> None:
    for rules, recall in (("published", 0.0), ("paper", 0.5), ("a2a", 0.5)):
        found = retrieve({"Observation": ["a", "b"]}, {"Observation": ["a", "c"]}, rule_name(rules))
        assert (found.recall, found.precision) == (recall, 0.5)


def test_an_error_has_no_retrieval_in_a2a_alone() -> None:
    output = Output("q1", "1", {"Observation": ["a", "b"]}, error="timeout")
    assert grade_row(question(), output, 0, rules="a2a").retrieval.recall is None
    assert grade_row(question(), output, 0).retrieval.recall == 1


def test_unknown_rules_are_an_error() -> None:
    with pytest.raises(InputError, match="known: published, paper, a2a"):
        rule_name("public")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=6),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["Observation", "x"]), inner),
        max_leaves=6,
    )
)
def test_any_cell_of_found_ids_is_read_or_refused(cell: Any) -> None:
    for value in (cell, str(cell)):
        try:
            found = retrieve({"Observation": ["a"]}, value)
        except ResourcesError:
            continue
        assert found.recall is not None


@pytest.mark.parametrize(
    ("answer", "error", "true", "normal", "rules", "correct"),
    [
        ("1", "timeout", "[[1]]", "question answered", "published", 0),
        ("1", " ", "[[1]]", "question answered", "published", None),
        ("1", " ", "[[1]]", "", "a2a", 0),
        ("none", None, "no answer", "No answer.", "published", 1),
        (None, None, "no answer", "no answer", "published", 1),
        (None, None, "[[1]]", "no answer", "published", 0),
        ("Error: Input tokens exceeded: 33000 > 32000", None, "no answer", "no answer", "published", 0),
        ("", None, "[[1]]", "", "published", None),
        ("", None, "[[1]]", "", "a2a", 0),
        (5, None, "no answer", "no answer", "published", 0),
    ],
)
def test_what_needs_no_judge(
    answer: Any, error: Any, true: str, normal: str, rules: RuleName, correct: int | None
) -> None:
    assert settle(answer, error, true, normal, rules) == correct


def test_a_judge_that_is_not_understood_is_asked_again_but_in_a2a() -> None:
    replies = [" '1' ", "0", "yes", "```1```", None]
    assert [read_judge(reply) for reply in replies] == [1, 0, None, None, 0]
    assert [read_judge(reply, "a2a") for reply in replies] == [0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("output", "kind"),
    [
        (Output("q1", "Error: Input tokens exceeded: 33000 > 32000"), "over-cap"),
        (Output("q1", "No final answer reached within iteration limit."), "out-of-turns"),
        (Output("q1", "2", error="timeout"), "error"),
        (Output("q1", None), "said-nothing"),
        (Output("q1", " "), "said-nothing"),
        (Output("q1", "2", {"Patient": ["a"]}), "nothing-found"),
        (Output("q1", "2", {"Observation": ["a", "z"]}), "not-all-found"),
        (Output("q1", "2", {"Observation": ["a", "b", "c"]}), "wrong-answer"),
    ],
)
def test_a_row_that_is_not_right_says_why(output: Output, kind: str) -> None:
    score = grade_row(question(), output, 0)
    assert score.failure == kind
    assert score.reason
    assert score.grounded is False


def test_grounded_is_right_with_all_true_ids() -> None:
    both = Output("q1", "1", {"Observation": ["b", "a"]})
    half = Output("q1", "1", {"Observation": ["a"]})
    assert grade_row(question(), both, 1).grounded is True
    assert grade_row(question(), half, 1).grounded is False
    assert grade_row(question({}), half, 1).grounded is None
    assert grade_row(question(), both, None).grounded is None


def test_figures_are_means_of_the_rows_that_count() -> None:
    rows = [
        grade_row(question(id="a"), Output("a", "1", {"Observation": ["a", "b"]}), 1),
        grade_row(question(id="b"), Output("b", "1", {}), 0),
        grade_row(question({}, id="c"), Output("c", "none", {}), None),
    ]
    parts = [RowPart(**json.loads(json.dumps(asdict(row.part)))) for row in rows]
    total = figures(parts)
    assert (total.rows, total.decided, total.right, total.accuracy) == (3, 2, 1, 0.5)
    assert (total.precision, total.precision_rows, total.recall_rows) == (1.0, 2, 3)
    assert total.recall == pytest.approx(2 / 3)
    assert total.f1 == pytest.approx(0.8)
    assert total.grounded == 1
    assert list(grouped(parts, lambda part: part.family)) == ["demographics"]
    assert by_types(parts)["{Observation}"]["recall"] == 0.5
    assert [part.answerable for part in parts] == [True, True, False]


def test_figures_of_nothing() -> None:
    total = figures([])
    assert (total.accuracy, total.precision, total.f1) == (None, None, 0.0)


def test_without_a_judge_errors_are_wrong_and_plain_answers_decided() -> None:
    assert decide(question(), Output("q1", "1", error="timeout")) == 0
    assert decide(question(), Output("q1", "Input tokens exceeded")) == 0
    assert decide(question(), Output("q1", "The final answer is: 1")) == 1
    assert decide(question(), Output("q1", "2")) == 0
    assert decide(question(), Output("q1", "It may be 1 or 2")) is None
