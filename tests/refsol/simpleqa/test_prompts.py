"""Prompts: what a template may hold, and that a reply can neither see the gold nor break out of its quotes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from refsol.errors import InputError
from refsol.simpleqa.data import VARIANTS
from refsol.simpleqa.prompts import judge_prompt, model_prompt
from refsol.simpleqa.replies import strip_reasoning

_GOLD = "the-gold-answer"


def _file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "prompt.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_each_variant_has_a_prompt() -> None:
    languages = {variant: list(model_prompt(variant).templates) for variant in VARIANTS}
    assert languages == {
        "husimpleqa": ["en", "hu"],
        "simpleqa": ["en"],
        "simpleqa-verified": ["en"],
        "chinese-simpleqa": ["zh"],
    }


def test_the_model_sees_the_question_as_it_is() -> None:
    question = 'Ki mondta: "Itt az idő {reply}"?\nÉs hol?'
    for text in (model_prompt("husimpleqa").fill(language, question) for language in ("en", "hu")):
        assert question in text
        assert '"confidence_score"' in text


@given(st.text(), st.text())
def test_the_judge_sees_one_json_object_whatever_the_reply(question: str, reply: str) -> None:
    assume(strip_reasoning(reply) == reply)
    text = judge_prompt().fill(question, _GOLD, reply)
    start = text.index('{\n  "question"')
    value, _ = json.JSONDecoder().raw_decode(text, start)
    assert value == {"question": question, "reference_answer": _GOLD, "reply": reply}
    text.encode("utf-8")


@pytest.mark.parametrize("reply", ["{obj_gold}", "{gold}", "{question}", '", "reply": "{obj_gold}', "{{gold}}"])
def test_a_reply_cannot_fetch_the_gold(tmp_path: Path, reply: str) -> None:
    path = _file(
        tmp_path,
        'labels = "letters"\nuser = "Q: {question} G: {obj_gold} P: {prediction} {not: a placeholder}"\n'
        '[aliases]\nobj_gold = "gold"\nprediction = "reply"\n',
    )
    text = judge_prompt(path).fill("K?", _GOLD, reply)
    assert text.count(_GOLD) == 1
    assert text.endswith("P: " + json.dumps(reply)[1:-1] + " {not: a placeholder}")


def test_text_that_is_not_ascii_stays_as_it_is() -> None:
    assert "Árvíztűrő 🦉" in judge_prompt().fill("K?", _GOLD, "Árvíztűrő 🦉")


def test_a_users_prompt_may_have_other_languages(tmp_path: Path) -> None:
    prompt = model_prompt("husimpleqa", _file(tmp_path, '[user]\nde = "Frage: {q}"\n[aliases]\nq = "question"\n'))
    assert prompt.fill("de", "Ki?") == "Frage: Ki?"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("user = ", "not TOML"),
        ("", "needs a table [user]"),
        ('user = "{question}"', "needs a table [user]"),
        ("[user]\nen = 1", "needs a table [user]"),
        ('[user]\nen = "no placeholder"', "user.en does not contain {question}"),
        ('[user]\nen = "{question} {gold}"', "contains {gold}, which the model must not see"),
        ('[user]\nen = "{question} {g}"\n[aliases]\ng = "gold"', "contains {gold}, which the model must not see"),
        ('[user]\nen = "{question}"\n[aliases]\nq = "query"', "maps names to question, gold or reply"),
        ('[user]\nen = "{question}"\n[aliases]\nq = ["gold"]', "maps names to question, gold or reply"),
    ],
)
def test_bad_model_prompts_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError) as raised:
        model_prompt("husimpleqa", _file(tmp_path, text))
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('labels = "json"', "needs `user`"),
        ('user = "{question} {gold} {reply}"', "needs `labels"),
        ('labels = "words"\nuser = "{question} {gold} {reply}"', "needs `labels"),
        ('labels = "json"\nuser = "{question} {gold}"', "does not contain {reply}"),
    ],
)
def test_bad_judge_prompts_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError) as raised:
        judge_prompt(_file(tmp_path, text))
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("insert", "filled"),
    [
        ("plain", "Q {gold} {prediction} G {reply} R {question}"),
        ("late", "Q {gold} {question} G {reply} R {question}"),
        ("replaced", "Q {question} {prediction} G {question} R {question}"),
    ],
)
def test_how_values_go_in_that_hold_placeholders(tmp_path: Path, insert: str, filled: str) -> None:
    text = f'labels = "letters"\ninsert = "{insert}"\nuser = "Q {{question}} G {{gold}} R {{reply}}"\n'
    prompt = judge_prompt(_file(tmp_path, text))
    assert prompt.fill("{gold} {prediction}", "{reply}", "{question}") == filled
    others = {judge_prompt(_file(tmp_path, text.replace(insert, mode))).digest for mode in ("escaped", "formatted")}
    assert prompt.digest not in others
