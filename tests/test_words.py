"""tools/words.py: its phrases, the places where it searches, and the tree, which is clean."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools import words

EACH = [pytest.param(phrase, id=phrase.finds) for phrase in words.PHRASES]


def reported(tmp_path: Path, name: str, text: str) -> list[tuple[int, str]]:
    """Line and text of each match in a file with this text."""
    path = tmp_path / name
    path.write_text(text)
    return [(match.line, match.text) for match in words.check(path)]


@pytest.mark.parametrize("phrase", EACH)
def test_a_phrase_finds_its_example_and_passes_the_plain_one(tmp_path: Path, phrase: words.Phrase) -> None:
    assert re.search(rf"\b(?:{phrase.pattern})\b", phrase.finds, re.IGNORECASE)
    assert [line for line, _ in reported(tmp_path, "a.md", phrase.finds.capitalize())] == [1]
    assert reported(tmp_path, "b.md", f"{phrase.plain}, {phrase.passes}") == []


def test_phrases_are_searched_in_docstrings_and_comments_but_not_in_other_strings(tmp_path: Path) -> None:
    program = (
        '"""Made\nanew, `lest`, and "lest"."""\n'
        'text = "lest"\n'
        "# all but\n"
        "# for one\n"
        "class A:\n    field: int\n"
        '    """So many."""\n'
    )
    assert [line for line, _ in reported(tmp_path, "a.py", program)] == [2, 8, 4]


def test_markdown_is_searched_outside_code_and_quotes(tmp_path: Path) -> None:
    page = 'One `lest`.\n```\nlest\n```\n> lest\n\nHe said "lest", then: all\nbut for one.\n'
    assert [line for line, _ in reported(tmp_path, "a.md", page)] == [8]


def test_names_are_variables_and_parameters(tmp_path: Path) -> None:
    program = (
        "from a import found\n"
        "class A:\n    kept: int = 0\n    told = 1\n"
        "x = A().asked + {'given': 1}['given'] + f(wanted=1)\n"
        "x.found = 1\n"
        "def f(given, *said): return [kept for kept in given]\n"
        "if (told := 1): pass\n"
        "try: pass\nexcept OSError as asked: pass\n"
    )
    names = [(line, text.split("`")[1]) for line, text in reported(tmp_path, "a.py", program)]
    assert sorted(names) == [(7, "given"), (7, "kept"), (7, "said"), (8, "told"), (10, "asked")]


def test_a_line_can_be_allowed_at_most_ten_times(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.py"
    path.write_text("found = 1  # words: ok\n" * 10)
    assert words.main([str(path)]) == 0
    path.write_text("found = 1  # words: ok\n" * 11)
    assert words.main([str(path)]) == 1
    assert "at most 10" in capsys.readouterr().out
    path.write_text("found = 1\n")
    assert words.main([str(path)]) == 1
    assert capsys.readouterr().out == f"{path}:1: the name `found`: use a noun of the field\n"


@pytest.mark.long
def test_the_tree_is_clean(capsys: pytest.CaptureFixture[str]) -> None:
    assert words.main([]) == 0, capsys.readouterr().out
