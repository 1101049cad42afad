"""Every rule against recorded tables, and `robust` against replies made to mislead it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from refsol.simpleqa.replies import last_object, strip_reasoning
from refsol.simpleqa.verdict import LABELS, RULES, Rule, read_verdict
from tests.shared_data import DATA


def _table(name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((DATA / "simpleqa" / name).read_text(encoding="utf-8"))
    return rows


@pytest.mark.parametrize("case", _table("verdict_vectors.json"), ids=lambda case: case["note"])
def test_published_rules_read_what_the_published_parsers_read(case: dict[str, Any]) -> None:
    assert read_verdict(case["reply"], "husimpleqa") == case["husimpleqa"]
    assert read_verdict(case["reply"], "letter") == case["simpleqa_letter"] == case["csimpleqa"]
    assert read_verdict(case["reply"], "strict") == case["inspect_strict"]


@pytest.mark.parametrize("case", _table("robust.json"), ids=lambda case: case["note"])
def test_robust_reads_what_the_judge_states(case: dict[str, Any]) -> None:
    assert read_verdict(case["reply"]) == case["robust"]


@pytest.mark.parametrize(
    ("reply", "label"),
    [
        ('{"evaluation": "CORRECT"}', "correct"),
        ('```json\n{"evaluation":"Not_Attempted "}\n```', "not_attempted "),
        ('```json\n{"evaluation": "whatever"}', "whatever"),
        ('```\n{"evaluation": "CORRECT"}\n```', None),
        ('So: {"evaluation": "CORRECT"}', None),
        ('{"evaluation": ["CORRECT"]}', None),
        ('{"other": "CORRECT"}', None),
        ("[1]", None),
        ("[" * 100_000, None),
    ],
)
def test_the_first_husimpleqa_rule_loads_json(reply: str, label: str | None) -> None:
    assert read_verdict(reply, "husimpleqa-v1") == label


@pytest.mark.parametrize(
    ("reply", "label"),
    [
        (r"\boxed{Correct}", "correct"),
        (r"So the verdict is \boxed{\text{INCORRECT}}.", "incorrect"),
        (r"\boxed{B}", "incorrect"),
        (r"\boxed{42}", None),
        (r"\boxed{Correct} or \boxed{Incorrect}", "incorrect"),
        ("The answer is CORRECT.", "correct"),
        ("It names the year. The answer is **not correct**.", "incorrect"),
        ("Therefore, the predicted answer is NOT_ATTEMPTED", "not_attempted"),
        ("> This response is: 'incorrect'!", "incorrect"),
        ("We have to say whether the answer is correct.", None),
        ("The answer is correct if the year is 1867.", None),
        ("The answer is correctly given.", None),
        ('"evaluation": "B"', "incorrect"),
        ('"evaluation": "C",', "not_attempted"),
        ('{"evaluation": "A"}', "correct"),
        ('evaluation: "CORRECT"', "correct"),
        ('The answer is CORRECT. {"evaluation": "INCORRECT"}', "incorrect"),
    ],
)
def test_robust_reads_other_forms_of_a_verdict(reply: str, label: str | None) -> None:
    assert read_verdict(reply) == label


def test_a_value_over_two_lines_is_no_match_for_the_published_pattern() -> None:
    assert read_verdict('{"evaluation": "COR\nRECT"}', "husimpleqa") is None


def test_an_empty_reply_is_read_by_the_letter_rules_only() -> None:
    assert {rule: read_verdict("", rule) for rule in RULES} == {
        "robust": None,
        "husimpleqa": None,
        "husimpleqa-v1": None,
        "letter": "C",
        "strict": "C",
        "autorater": "C",
    }
    said = ("correct", "I say B", "incorrect", "no idea")
    assert [read_verdict(reply, "autorater") for reply in said] == ["A", "B", "A", "C"], "as the notebook reads them"


@given(st.text(alphabet=" {}[]\",:'\\ABCnotcre<think>/evaluation_\n") | st.text(), st.sampled_from(RULES))
def test_any_reply_is_read(reply: str, rule: Rule) -> None:
    label = read_verdict(reply, rule)
    if rule == "robust":
        assert label in {*LABELS, None}
    if rule in ("letter", "strict"):
        assert label in {"A", "B", "C"}


@pytest.mark.parametrize(
    ("reply", "label"),
    [
        ("B: INCORRECT", "incorrect"),
        ("(A) Correct.", "correct"),
        ("**C** – NOT_ATTEMPTED", "not_attempted"),
        ("INCORRECT (B)", "incorrect"),
        ('{"evaluation": "C: not attempted"}', "not_attempted"),
        ("Grade: B. Incorrect", "incorrect"),
        ("A: INCORRECT", None),
        ('{"evaluation": "A: INCORRECT"}', None),
        ("B: INCORRECT, or A: CORRECT", None),
    ],
)
def test_a_letter_with_its_own_word_is_that_label(reply: str, label: str | None) -> None:
    assert read_verdict(reply) == label


@given(st.sampled_from(LABELS), st.text(), st.text())
def test_a_reason_cannot_overrule_a_whole_object(label: str, before: str, after: str) -> None:
    reply = json.dumps({"before": before, "evaluation": label.upper(), "after": after}, ensure_ascii=False)
    assume("think>" not in reply.lower())
    assert read_verdict(reply) == label


@pytest.mark.parametrize(
    "piece",
    [
        "{",
        '{"',
        '{"a":',
        "<think>",
        '{"evaluation": "',
        "evaluation:",
        "grade:\n",
        "> ",
        "\n",
        "{evaluation ",
        ",\n",
        "' ",
    ],
)
def test_a_long_reply_is_read(piece: str) -> None:
    filler = piece * (100_000 // len(piece))
    for rule in RULES:
        read_verdict(filler, rule)
    assert read_verdict(f'<think>{filler}</think>{{"evaluation": "INCORRECT"}}') == "incorrect"


def test_deep_nesting_is_no_error() -> None:
    assert read_verdict('{"a":' * 5000 + '{"evaluation": "CORRECT"}') == "correct"


def test_reasoning_is_taken_off() -> None:
    assert strip_reasoning("a<think>b</think>c") == "ac"
    assert strip_reasoning("a</think>b<think>c") == "b"
    assert strip_reasoning("I think>so") == "I think>so"


def test_the_last_object_of_a_reply() -> None:
    assert last_object('{"a": 1} then ```json\n{"b": {"c": 2}}\n``` and {"d": ') == {"b": {"c": 2.0}}
    assert last_object('<think>{"a": 1}</think>none') is None
    assert last_object('{"n": ' + "9" * 5000 + "}") == {"n": float("inf")}
