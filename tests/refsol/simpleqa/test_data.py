"""The four formats, and bad files: everything wrong is named with its line."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medagent.benchmarks.simpleqa.settings import BUNDLED
from refsol.errors import InputError
from refsol.simpleqa.data import GoldQuestion, Variant, duplicate_ids, read_items
from refsol.simpleqa.score import DIMENSIONS


def _write(tmp_path: Path, text: str, name: str = "data.jsonl") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8", newline="")
    return path


def _lines(*rows: object) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def test_the_bundled_questions_are_five_of_each_dimension() -> None:
    items = read_items(BUNDLED)
    assert Counter(item.group for item in items) == dict.fromkeys(DIMENSIONS, 5)
    assert len({item.question for item in items}) == 40
    assert not duplicate_ids(items)


def test_blank_lines_and_a_byte_order_mark_are_accepted(tmp_path: Path) -> None:
    text = "\ufeff\n" + _lines({"question": "K?\u2028", "answer": "V", "hu_specific_dim": " saját "}) + "\n  \n"
    assert read_items(_write(tmp_path, text)) == [GoldQuestion("2", 2, "K?\u2028", "V", "saját")]


def test_an_id_may_be_a_number_and_may_be_missing(tmp_path: Path) -> None:
    base = {"question": "K?", "answer": "V"}
    path = _write(tmp_path, _lines({**base, "qid": 7}, base, {**base, "qid": ""}, {**base, "qid": "x"}))
    assert [item.id for item in read_items(path)] == ["7", "2", "3", "x"]


def test_duplicate_ids_are_found(tmp_path: Path) -> None:
    row = {"question": "K?", "answer": "V", "qid": "x"}
    assert duplicate_ids(read_items(_write(tmp_path, _lines(row, {**row, "qid": "y"}, row)))) == {"x": [1, 3]}


def test_simpleqa_csv(tmp_path: Path) -> None:
    text = (
        "metadata,problem,answer\r\n"
        "\"{'topic': 'Art', 'answer_type': 'Person'}\",\"Who\r\n\"\"else\"\"?\",Nobody\r\n"
        "\r\n"
        "not a dictionary,Why?,Because\r\n"
    )
    items = read_items(_write(tmp_path, text, "data.csv"), "simpleqa")
    assert items == [
        GoldQuestion("2", 2, 'Who\r\n"else"?', "Nobody", "Art"),
        GoldQuestion("5", 5, "Why?", "Because", ""),
    ]


def test_simpleqa_verified_csv(tmp_path: Path) -> None:
    text = "original_index,problem,answer,topic\n17,Who?,Nobody,Politics\n"
    items = read_items(_write(tmp_path, text, "data.csv"), "simpleqa-verified")
    assert items == [GoldQuestion("17", 2, "Who?", "Nobody", "Politics")]


def test_chinese_simpleqa(tmp_path: Path) -> None:
    row = {"id": "a1", "primary_category": "中华文化", "secondary_category": "历史", "question": "谁？", "answer": "无"}
    items = read_items(_write(tmp_path, _lines(row)), "chinese-simpleqa")
    assert items == [GoldQuestion("a1", 1, "谁？", "无", "中华文化")]


_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1).filter(str.strip)


@settings(max_examples=30)
@given(st.lists(st.tuples(_TEXT, _TEXT), min_size=1))
def test_csv_is_read_as_it_was_written(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]) -> None:
    out = io.StringIO(newline="")
    csv.writer(out).writerows([("problem", "answer"), *rows])
    items = read_items(_write(tmp_path_factory.mktemp("csv"), out.getvalue(), "data.csv"), "simpleqa")
    assert [(item.question, item.answer) for item in items] == rows
    lines = re.split(r"\r\n?|\n", out.getvalue())
    assert all(lines[item.line - 1].startswith(('"', item.question[0])) for item in items)


@settings(max_examples=30)
@given(st.lists(st.tuples(_TEXT, _TEXT, st.text(st.characters(codec="utf-8"))), min_size=1))
def test_json_lines_are_read_as_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, str]]
) -> None:
    text = _lines(*({"question": q, "answer": a, "hu_specific_dim": d} for q, a, d in rows))
    items = read_items(_write(tmp_path_factory.mktemp("json"), text))
    assert [(item.question, item.answer, item.group) for item in items] == [(q, a, d.strip()) for q, a, d in rows]
    assert [item.line for item in items] == list(range(1, len(rows) + 1))


def test_every_row_without_question_or_answer_is_named(tmp_path: Path) -> None:
    rows = [{"question": "K?"}, {"answer": "V"}, {"question": "K?", "answer": "V"}, {"question": 1, "answer": " "}, {}]
    with pytest.raises(InputError) as raised:
        read_items(_write(tmp_path, _lines(*rows)))
    faults = [line.partition(".jsonl:")[2] for line in str(raised.value).splitlines()]
    assert faults == [
        "1: answer: is missing",
        "2: question: is missing",
        "4: question: is not a text",
        "4: answer: is empty",
        "5: question: is missing",
        "5: answer: is missing; fix or remove these rows",
    ]


@pytest.mark.parametrize(
    ("data", "variant", "message"),
    [
        (b'{"question": "K?", "answer": "V"}\n{"question"', "husimpleqa", "data:2: is not JSON"),
        (b'["question"]\n', "husimpleqa", "data:1: is one JSON document, not JSON lines"),
        (b'{"question": "K?", "answer": "V"}\n\xff\n', "husimpleqa", "data:2: is not UTF-8"),
        (b"\n \n", "husimpleqa", "contains no questions"),
        (b"", "simpleqa", "no column `problem` and no column `answer`"),
        (b"metadata,question,answer\n", "simpleqa", "no column `problem`"),
        (b'problem,answer\n"a"b,c\n', "simpleqa", "data:2: is not CSV"),
        (b"problem,answer\nWho?\n,x\n", "simpleqa", "data:3: problem: is empty"),
    ],
)
def test_unreadable_files_are_refused(tmp_path: Path, data: bytes, variant: Variant, message: str) -> None:
    path = tmp_path / "data"
    path.write_bytes(data)
    with pytest.raises(InputError) as raised:
        read_items(path, variant)
    assert message in str(raised.value)
    assert str(path) in str(raised.value)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_items(tmp_path / "nowhere.jsonl")


@pytest.mark.parametrize(
    ("name", "variant", "message"),
    [
        (
            "d.csv",
            "husimpleqa",
            "its name says that it is CSV, but --variant is husimpleqa; pass --variant simpleqa or --variant simpleqa-",
        ),
        (
            "d.jsonl",
            "simpleqa",
            "its name says that it is JSON lines, but --variant is simpleqa; pass --variant husimpleqa or --variant ch",
        ),
    ],
)
def test_a_file_of_another_variants_format_is_said(tmp_path: Path, name: str, variant: Variant, message: str) -> None:
    (tmp_path / name).write_text("problem,answer\n", encoding="utf-8")
    with pytest.raises(InputError) as raised:
        read_items(tmp_path / name, variant)
    assert message in str(raised.value)
