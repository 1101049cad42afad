"""ROUGE against slow, obvious versions of its parts: a tokenizer that goes by characters, a table for the LCS."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refsol.promptcblue._metrics import rouge, tokens
from refsol.stats import common_subsequence


def slow_tokens(text: str) -> list[str]:
    spaced = ""
    for char in text:
        category = unicodedata.category(char)
        if (category[0] == "C" and char not in "\t\n\r") or char == "\ufffd":
            continue
        name = unicodedata.name(char, "")
        cjk = name.startswith("CJK UNIFIED IDEOGRAPH") or name.startswith("CJK COMPATIBILITY IDEOGRAPH")
        spaced += f" {char} " if cjk else " " if category == "Zs" else char
    found = []
    for word in spaced.split():
        bare = (char for char in unicodedata.normalize("NFD", word.lower()) if unicodedata.category(char) != "Mn")
        run = ""
        for char in bare:
            if unicodedata.category(char)[0] == "P" or char in "$+<=>^`|~":
                found += [run, char]
                run = ""
            else:
                run += char
        found.append(run)
    return [token for token in found if token] or ["无", "。"]


def table_lcs(first: str, second: str) -> int:
    row = [0] * (len(second) + 1)
    for left in first:
        above = row
        row = [0]
        for index, right in enumerate(second):
            row.append(above[index] + 1 if left == right else max(row[index], above[index + 1]))
    return row[-1]


# Rare planes are left out: newer ideographs than the tokenizer knows have CJK names too.
chars = st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]) | st.sampled_from("中文，。 Aaéß38.5℃\t\u00a0")


@settings(max_examples=300)
@given(st.text(chars, max_size=40))
def test_tokens_are_those_of_the_slow_tokenizer(text: str) -> None:
    assert tokens(text) == slow_tokens(text)


@given(st.text("abcd", max_size=90), st.text("abcde", max_size=90))
def test_the_subsequence_is_that_of_the_table(first: str, second: str) -> None:
    assert common_subsequence(first, second) == table_lcs(first, second)


@given(st.text(chars, max_size=30), st.text(chars, max_size=30))
def test_figures_are_symmetric_and_bounded(first: str, second: str) -> None:
    there, back = rouge(first, second), rouge(second, first)
    for name in ("rouge1", "rouge2", "rouge_l"):
        assert 0 <= getattr(there, name) <= 1
        assert getattr(there, name) == pytest.approx(getattr(back, name))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ["无", "。"]),
        ("\x00\ufffd", ["无", "。"]),
        ("CT检查，38.5度", ["ct", "检", "查", "，", "38", ".", "5", "度"]),
        ("Café 𠀀b", ["cafe", "𠀀", "b"]),
        ("a\u2028b\u00adc", ["a", "bc"]),
    ],
)
def test_tokens(text: str, expected: list[str]) -> None:
    assert tokens(text) == expected
