"""The reader of JSON, JSON-lines and text files: what it reads, and how it says what is wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Literal
from zipfile import ZipFile

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, FiniteFloat

from refsol.errors import FactsError, InputError
from refsol.files import (
    Fault,
    FaultsError,
    InputFile,
    anything,
    json_object,
    read_json,
    read_jsonl,
    read_text,
)
from refsol.schema import validator

CHINESE = "患者出现发热、咳嗽,建议进行胸部检查。"


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str
    kind: Literal["a", "b"] = "a"


class Outer(BaseModel):
    model_config = ConfigDict(strict=True)
    id: str | int
    score: FiniteFloat | None = None
    parts: list[Inner] = []
    by_name: dict[str, Inner] = {}


def written(tmp_path: Path, content: str | bytes) -> Path:
    path = tmp_path / "f.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refused(read: Any) -> list[str]:
    """The message, line by line, without the path's folder."""
    with pytest.raises(InputError) as caught:
        read()
    return [line[line.index("f.json") :] for line in str(caught.value).splitlines()]


@pytest.mark.parametrize("prefix", [b"", b"\xef\xbb\xbf"])
def test_a_byte_order_mark_is_no_content(tmp_path: Path, prefix: bytes) -> None:
    path = written(tmp_path, prefix + b'{"a": 1}\n{"a": 2}\n')
    assert read_jsonl(path, json_object) == [(1, {"a": 1}), (2, {"a": 2})]
    assert read_text(path) == '{"a": 1}\n{"a": 2}\n'
    assert read_json(written(tmp_path, prefix + b"[1]"), anything) == [1]


def test_blank_lines_are_skipped_and_lines_keep_their_numbers(tmp_path: Path) -> None:
    path = written(tmp_path, '\n{"a": "\u2028"}\n \r\n{"b": 1}')
    assert read_jsonl(path, json_object) == [(2, {"a": "\u2028"}), (4, {"b": 1})]


@pytest.mark.parametrize("encoding", ["gbk", "gb18030"])
def test_another_encoding_is_read_where_it_is_named(tmp_path: Path, encoding: Literal["gbk", "gb18030"]) -> None:
    row = {"问题": CHINESE}
    path = written(tmp_path, (json.dumps(row, ensure_ascii=False) + "\n").encode(encoding))
    assert read_jsonl(path, json_object, encoding=encoding) == [(1, row)]
    assert read_json(path, json_object, encoding=encoding) == row


def test_a_gbk_file_is_one_line_that_names_the_option(tmp_path: Path) -> None:
    path = written(tmp_path, (json.dumps({"q": CHINESE}, ensure_ascii=False) + "\n").encode("gbk") * 10_000)
    for read in (read_json, read_jsonl):
        assert refused(lambda read=read: read(path, anything)) == [
            "f.json: not UTF-8, probably GBK; try --encoding gbk"
        ]


def test_a_gb18030_file_is_told_from_gbk(tmp_path: Path) -> None:
    path = written(tmp_path, f"{CHINESE}𠀀".encode("gb18030"))
    assert refused(lambda: read_text(path)) == ["f.json: not UTF-8, probably GB18030; try --encoding gb18030"]


@pytest.mark.parametrize("data", [b'{"a": 1}\n{"b": "caf\xe9 au lait"}', CHINESE.encode() + b"\n" + b"\xe6"])
def test_a_file_with_a_damaged_byte_is_not_taken_for_gbk(tmp_path: Path, data: bytes) -> None:
    assert refused(lambda: read_text(written(tmp_path, data)))[0].startswith("f.json:2: is not UTF-8 at byte ")


def test_a_zip_archive_is_one_line(tmp_path: Path) -> None:
    with ZipFile(tmp_path / "f.json", "w") as archive:
        archive.writestr("a", bytes(range(256)) * 9)
    for read in (read_json, read_jsonl):
        assert refused(lambda read=read: read(tmp_path / "f.json", anything)) == [
            "f.json: is a ZIP archive; unpack it, and name a file in it; if it is a pack of a run, name the folder"
        ]


@pytest.mark.parametrize("encoding", ["iso8859-2", "cp1252"])
def test_a_european_file_is_not_taken_for_gbk(tmp_path: Path, encoding: str) -> None:
    data = '{"a": 1}\n{"a": "Übelkeit, Müdigkeit und Fieber"}\n'.encode(encoding)
    assert refused(lambda: read_jsonl(written(tmp_path, data), anything)) == [
        "f.json:2: is not UTF-8 at byte 8 of the line"
    ]


def test_text_in_the_wrong_encoding_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, b'{"a": "\xff"}')
    assert refused(lambda: read_json(path, anything, encoding="gbk")) == ["f.json:1: is not GBK at byte 8 of the line"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "f.json:1: is not JSON: Expecting value at column 1"),
        ('{\n "a": }', "f.json:2: is not JSON: Expecting value at column 7"),
        ("[" * 100_000, "f.json:1: is nested too deeply to be read"),
        ("1" * 5000, "f.json:1: is not JSON: Exceeds the limit"),
    ],
)
def test_what_is_no_json_is_named_with_its_line(tmp_path: Path, content: str, problem: str) -> None:
    (message,) = refused(lambda: read_json(written(tmp_path, content), anything))
    assert message.startswith(problem)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert refused(lambda: read_json(tmp_path / "f.json", anything)) == [
        "f.json: cannot be read: No such file or directory"
    ]
    (tmp_path / "f.json").mkdir()
    assert refused(lambda: read_jsonl(tmp_path / "f.json", anything)) == ["f.json: cannot be read: Is a directory"]


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = written(tmp_path, "[1, 2]")
    message = "f.json: contains 6 bytes, more than the limit of 5"
    assert refused(lambda: read_json(path, anything, max_bytes=5)) == [message]
    assert read_json(path, anything, max_bytes=6) == [1, 2]


def test_every_problem_of_a_document_has_its_line_and_place(tmp_path: Path) -> None:
    content = """{
  "by_name": {"x y": {"name": 1}, "last": {"name": "n",
    "kind": "c"}},
  "parts": [ {"name": "fine"},

    {"nam": "n"}],
  "score": NaN
}"""
    assert refused(lambda: read_json(written(tmp_path, content), validator(Outer), expected="an outer is wanted")) == [
        "f.json:1: id: is missing",
        "f.json:7: score: is not a finite number",
        "f.json:6: parts[1].name: is missing",
        "f.json:6: parts[1].nam: is a field that the format does not have",
        'f.json:2: by_name["x y"].name: is not a text',
        "f.json:3: by_name.last.kind: is not 'a' or 'b'; an outer is wanted",
    ]


def test_half_of_a_surrogate_pair_is_read_as_the_replacement_character(tmp_path: Path) -> None:
    assert read_json(written(tmp_path, '{"id": "\\ud800 \\ud83d\\ude00"}'), validator(Outer)).id == "\ufffd 😀"
    lines = written(tmp_path, '{"id": "\\\\ud800"}\n{"id": "\\udfff"}\n')
    assert [row.id for _, row in read_jsonl(lines, validator(Outer))] == ["\\ud800", "\ufffd"]


def test_at_most_twenty_problems_are_listed(tmp_path: Path) -> None:
    path = written(tmp_path, '{"id": 1}\n' + '{"id": null}\n' * 30)
    messages = refused(lambda: read_jsonl(path, validator(Outer), expected="each line is an outer"))
    assert messages[0] == "f.json:2: id: is not a text or a whole number"
    assert messages[20:] == ["f.json: and 10 more; each line is an outer"]


def test_bad_lines_and_bad_values_are_listed_together(tmp_path: Path) -> None:
    path = written(tmp_path, b'{"id": 1}\n{"id": }\n[]\n\xff\n{"id": 1, "score": "x"}\n')
    assert refused(lambda: read_jsonl(path, validator(Outer))) == [
        "f.json:2: is not JSON: Expecting value at column 8",
        "f.json:3: is not a JSON object",
        "f.json:4: is not UTF-8 at byte 1 of the line",
        "f.json:5: score: is not a number",
    ]


@pytest.mark.parametrize("content", ["[1]\n", '{\n  "id": 1\n}\n', "\n [\n"])
def test_a_document_in_place_of_lines_is_said_once(tmp_path: Path, content: str) -> None:
    (message,) = refused(lambda: read_jsonl(written(tmp_path, content), json_object))
    assert "is one JSON document, not JSON lines" in message


def test_a_torn_last_line_is_forgiven_where_asked(tmp_path: Path) -> None:
    path = written(tmp_path, '{"id": 1}\n{"id"')
    with InputFile(path) as file:
        assert [line for line, _ in file.json_lines(json_object, torn_tail=True)] == [1]
    assert refused(lambda: read_jsonl(path, json_object)) != []


def test_faults_of_a_caller_stand_among_the_others(tmp_path: Path) -> None:
    path = written(tmp_path, '{"id": 1}\n{"id": 1}\n{')

    def read() -> None:
        with InputFile(path) as file:
            seen = set()
            for line, row in file.json_lines(json_object):
                if row["id"] in seen:
                    file.fault("duplicate id", line=line, place="id")
                seen.add(row["id"])

    assert [message[:30] for message in refused(read)] == [
        "f.json:2: id: duplicate id",
        "f.json:3: is not JSON: Expecti",
    ]


def test_an_error_of_the_callers_own_wins(tmp_path: Path) -> None:
    def fail() -> None:
        with InputFile(written(tmp_path, "{}")) as file:
            file.fault("x")
            raise KeyError

    with pytest.raises(KeyError):
        fail()


def test_the_error_is_of_the_kind_asked_for(tmp_path: Path) -> None:
    with pytest.raises(FactsError, match="is not JSON"):
        read_json(written(tmp_path, "{"), anything, error=FactsError)


def test_faults_name_their_place() -> None:
    assert Fault("x", ("results", 3, "answer")).place == "results[3].answer"
    assert Fault("x", (0, "a b", "0")).place == '[0]["a b"]["0"]'
    assert str(FaultsError([Fault("is bad", ("a",)), Fault("is worse")])) == "a: is bad; is worse"


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=20,
)


@given(values, st.sampled_from([None, 0, 2]), st.data())
def test_the_line_of_every_place_is_found(
    tmp_path_factory: pytest.TempPathFactory, value: Any, indent: int | None, data: st.DataObject
) -> None:
    steps: list[str | int] = []
    inner = value
    while isinstance(inner, dict | list) and inner and data.draw(st.booleans()):
        step = data.draw(st.sampled_from(sorted(inner) if isinstance(inner, dict) else range(len(inner))))
        steps.append(step)
        inner = inner[step]
    path = tmp_path_factory.mktemp("lines") / "f.json"
    path.write_text(json.dumps(value, indent=indent), encoding="utf-8")

    def refuse(_: Any) -> None:
        raise FaultsError([Fault("is wrong", tuple(steps))])

    (message,) = refused(lambda: read_json(path, refuse))
    line = path.read_text(encoding="utf-8").split("\n")[int(message.split(":")[1]) - 1]
    assert json.dumps(inner, indent=indent).split("\n")[0] in line


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("a.json", '{"a": 1, "b": 2, "a": 3}', "a.json: "),
        ("a.json", '[{"b": {"a": 1, "a": 1}}]', "a.json: "),
        ("a.jsonl", '{"b": 1}\n{"a": 1, "\\u0061": 2}\n', "a.jsonl:2: "),
    ],
)
def test_a_key_that_occurs_twice_is_not_taken_silently(tmp_path: Path, name: str, text: str, place: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InputError, match=re.escape(f"{place}an object contains the key 'a' twice; remove one of them")):
        (read_jsonl if name.endswith("l") else read_json)(path, anything)
