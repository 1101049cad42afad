"""The comparison without a judge: what it decides is right, and what is not plain it leaves alone."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refsol.fhiragentbench import Question, compare, read_questions
from refsol.fhiragentbench.compare import read_values
from tests.shared_data import DATA, SHARED, need, read_xz


def question(true_answer: str, text: str = "What was it?") -> Question:
    ids = {} if true_answer == "no answer" else {"Observation": ["a"]}
    return Question("q", text, true_answer, ids)


def test_no_judge_case_is_decided_wrong() -> None:
    cases = [json.loads(line) for line in read_xz(DATA / "fhiragentbench" / "judge_cases.jsonl.xz").splitlines()]
    decisions = [(compare(question(case["true_answer"], case["question"]), case["answer"]), case) for case in cases]
    assert [case for decision, case in decisions if decision is not None and decision != bool(case["correct"])] == []
    assert sum(decision is not None for decision, _ in decisions) >= 28


def test_every_true_answer_of_the_questions_is_right() -> None:
    questions = read_questions(need(SHARED / "fhiragentbench" / "questions.csv"))
    wrong = [
        published.id
        for published in questions
        if compare(published, published.true_answer if published.true_ids else "None found") is not True
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("[]", []),
        ("[[None]]", [None]),
        ("[[1]]", [1.0]),
        ("[[-3.]]", [-3.0]),
        ("[['EW EMER.']]", ["EW EMER."]),
        ('[["it\'s"]]', ["it's"]),
        ("[[115.8]\n [ 98. ]]", [115.8, 98.0]),
        ("[['a']\n ['b']\n ['c, d']]", ["a", "b", "c, d"]),
        ("[[1]", None),
        ("1", None),
        ("[[1]] 2", None),
        ("[['a]]", None),
    ],
)
def test_a_true_answer_is_read(text: str, values: list[object] | None) -> None:
    assert read_values(text) == values


@pytest.mark.parametrize(
    ("true", "answer", "decision"),
    [
        ("no answer", "There are no records", True),
        ("no answer", "There is no doubt that it was heparin", None),
        ("no answer", "No data, but the weight was 80 kg", None),
        ("no answer", "0", True),
        ("no answer", "0.5", False),
        ("no answer", "2148-08-16", False),
        ("no answer", "As of 2148-08-16 the record is empty", None),
        ("[[140]]", "140 mmHg", True),
        ("[[140]]", "It was 140 or 150", None),
        ("[[140]]", "more than 140", None),
        ("[[140]]", "On the 3rd day it was 140", True),
        ("[[140]]", "139.6", True),
        ("[[140]]", "139", False),
        ("[[140]]", "14 dL", None),
        ("[[140]]", "140/80", None),
        ("[[140]]", "140 mL/24 h", True),
        ("[[140]]", "130-140", None),
        ("[[140]]", "No records were found.", False),
        ("[[0.]]", "No records were found.", None),
        ("[[2]]", "I looked at 2 visits and found nothing.", None),
        ("[[2]]", "twice", None),
        ("[[2.5]]", "2", None),
        ("[[-38]]", "38", False),
        ("[[-38]]", "It fell by 38", None),
        ("[['400']]", "400 mg", True),
        ("[['M']]", "I'm not sure", None),
        ("[['M']]", "The patient is male.", True),
        ("[['M']]", "female", False),
        ("[['2148-08-16 07:02:00']]", "August 16, 2148 at 7:03 am", True),
        ("[['2148-08-16 07:02:00']]", "2148-08-16 19:02", None),
        ("[['2148-08-16 07:02:00']]", "2148-08-17T00:02:00Z", None),
        ("[['2148-08-16 07:02:00']]", "2148-08-16 or 2148-08-17", None),
        ("[['Heparin']]", "There is no drug, it was heparin", None),
        ("[['Heparin']]", "warfarin", None),
        ("[['A']\n ['B']]", "- B\n- A", True),
        ("[['A']\n ['B']]", "['a', 'b']", True),
        ("[['A']\n ['B']]", "A, B and C", None),
        ("[['A']\n ['B']]", "B", False),
        ("[[1.2]\n [3]]", "[[3], [1]]", True),
        ("[[1.2]\n [3]]", "3", False),
        ("[[1.2]\n [3]]", "", False),
        ("[[1]]", "No final answer reached within iteration limit.", False),
    ],
)
def test_what_is_plain_is_decided(true: str, answer: str, decision: bool | None) -> None:
    assert compare(question(true), answer) is decision


@pytest.mark.parametrize(
    ("true", "answer", "decision"),
    [
        ("[[1]]", "Yes, on 3 May.", True),
        ("[[1]]", "Yes, although it was not given", None),
        ("[[1]]", "true", True),
        ("[[0]]", "No, but yes in 2150.", None),
        ("[[0]]", "There is no record of it", None),
        ("[[0]]", "yes", False),
        ("no answer", "No.", True),
        ("no answer", "Yes.", False),
    ],
)
def test_yes_and_no(true: str, answer: str, decision: bool | None) -> None:
    assert compare(question(true, "Was it given?"), answer) is decision


@given(
    st.sampled_from(["[[1]]", "[[2.5]]", "[['M']]", "[['2148-08-16 07:02:00']]", "[['a']\n ['b']]", "no answer", "x"]),
    st.text(),
)
def test_no_answer_raises(true: str, answer: str) -> None:
    assert compare(question(true), answer) in (True, False, None)
    assert compare(question(true, "Is it?"), answer) in (True, False, None)
