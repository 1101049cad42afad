from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refsol.promptcblue import parse_answer, parse_file, parse_predictions
from refsol.promptcblue.files import ProblemsError
from refsol.promptcblue.parse import PARSERS, is_fatal
from tests.refsol.promptcblue.vectors import jsonl, line, text, value

ORDER = [
    *("CMeEE-V2", "CMeIE", "CHIP-CDN", "CHIP-CDEE", "CHIP-STS", "CHIP-CTC", "CHIP-MDCFNPC"),
    *("KUAKE-IR", "KUAKE-QIC", "KUAKE-QQR", "KUAKE-QTR", "MedDG"),
    *("IMCS-V2-MRG", "IMCS-V2-NER", "IMCS-V2-DAC", "IMCS-V2-SR"),
]
CASES = {case["case"]: case for case in value("parser_cases.json")}


def comparable(structured: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Without the tasks that have no line, and CHIP-CDN in one order: officially it is a set in random order."""
    kept = {task: items for task, items in structured.items() if items}
    for item in kept.get("CHIP-CDN", []):
        item["answer"] = sorted(item["answer"], key=lambda entry: str(entry["entity"]))
    return kept


def test_vectors() -> None:
    structured, problems = parse_predictions(text("predictions.jsonl").encode())
    assert not problems
    assert list(structured) == ORDER
    assert comparable(structured) == comparable(value("structured.json"))


@pytest.mark.parametrize("name", CASES)
def test_parser_case(name: str) -> None:
    official = CASES[name]["official_ccks"]
    structured, problems = parse_predictions(jsonl(CASES[name]["line"]))
    assert is_fatal(problems) == ("error" in official)
    if "ok" in official:
        assert comparable(structured) == comparable(official["ok"])


def test_written_in_the_official_layout(tmp_path: Any) -> None:
    (tmp_path / "p.json").write_bytes(jsonl(line(target=" 好, 的 ")))
    parse_file(tmp_path / "p.json", tmp_path / "r.json")
    written = (tmp_path / "r.json").read_text("utf-8")
    assert written.startswith('{\n  "CMeEE-V2": [],\n')
    assert '    {\n      "sample_id": "s-1",\n      "answer": "好， 的"\n    }' in written
    assert list(json.loads(written)) == ORDER


def test_a_piece_of_an_event_is_tested_for_each_field_with_what_the_test_before_left() -> None:
    target = "首行\n主体词：描述词：甲，乙；解剖部位： 腹 ，， 胸 "
    assert parse_answer("CHIP-CDEE", target, None) == [
        {"主体词": "描述词：甲，乙", "发生状态": "", "描述词": ["甲", "乙"], "解剖部位": ["腹", "胸"]}
    ]


def test_accepted_with_a_warning_or_without() -> None:
    no_id = line()
    del no_id["sample_id"]
    data = b"\xef\xbb\xbf" + jsonl(line()) + b"\n  \r\n" + jsonl(no_id, line("MedDG"))
    structured, problems = parse_predictions(data)
    assert [item["sample_id"] for item in structured["MedDG"]] == ["s-1", "xxxx", "s-1"]
    assert [str(problem) for problem in problems] == [
        "warning: line 2: blank, skipped",
        "warning: line 3: blank, skipped",
        "warning: line 4: no sample_id; xxxx is used",
        "warning: line 5, sample s-1: duplicate id in MedDG; both samples are used",
    ]


def test_lines_end_at_line_feeds_only() -> None:
    structured, problems = parse_predictions(jsonl(line(target="甲\u2028乙\x85丙")).replace(b"\n", b"\r\n"))
    assert not problems
    assert structured["MedDG"][0]["answer"] == "甲\u2028乙\x85丙"


def without(key: str) -> dict[str, Any]:
    return {name: what for name, what in line().items() if name != key}


BAD_LINES: dict[str, tuple[bytes, str]] = {
    "empty": (b"\xef\xbb\xbf \n", "whole file: contains no lines"),
    "broken JSON": (b'{"input": "x", \n', "line 1: not JSON: Expecting property name"),
    "GBK": ('{"input": "患者出现发热、咳嗽"}\n'.encode("gbk") * 3, "whole file: not UTF-8, probably GBK"),
    "cp1252": ('{"input": "Übelkeit, Müdigkeit"}'.encode("cp1252"), "line 1: not UTF-8 at byte 12"),
    "not UTF-8": (b'{"input": "\xff"}', "line 1: not UTF-8 at byte 12"),
    "no object": (b'"text"', "line 1: a JSON str, not an object"),
    "a JSON list": (b" [\n{}\n]", "line 1: a JSON list; write JSON lines instead"),
    "nested too deeply": (b'{"a":' * 100_000, "line 1: not usable: nested too deeply"),
    "an endless number": (b'{"a": ' + b"1" * 5000 + b"}", "line 1: not usable: Exceeds the limit"),
    "a key twice": (b'{"input": "x", "input": "y"}', "line 1: the key 'input' occurs twice"),
    "half a surrogate": (jsonl(line()).replace("答".encode(), b"\\ud83d"), "line 1: half of a surrogate pair"),
    "unknown task": (jsonl(line("MedQA")), "line 1, sample s-1: unknown task 'MedQA'; the tasks are CMeEE-V2,"),
    "task no text": (jsonl(line("MedDG", task_dataset=["MedDG"])), "line 1, sample s-1: unknown task ['MedDG']"),
    "other edition": (jsonl(line("CMeIE-V2")), "CMeIE-V2 is a task of the public 18-task edition, not of this one"),
    "new in the other edition": (jsonl(line("Text2DT")), "Text2DT is a task of the public 18-task edition"),
    "target null": (jsonl(line(target=None)), "line 1, sample s-1: target is not a text"),
    "sample_id null": (jsonl(line(sample_id=None)), "sample_id is neither a text nor a whole number"),
    "entities without choices": (jsonl(line("CMeEE-V2")), "answer_choices is not a list, and CMeEE-V2 needs one"),
    "triples without choices": (jsonl(line("CMeIE")), "answer_choices is not a list, and CMeIE needs one"),
    "choices a text": (jsonl(line("IMCS-V2-NER", answer_choices="症状")), "answer_choices is not a list"),
    "terms without choices": (jsonl(line("CHIP-CDN")), "an answer has to be looked up in it"),
    "attributes without choices": (jsonl(line("IMCS-V2-SR", target="首行\n咳：有")), "has to be looked up in it"),
    **{f"no {key}": (jsonl(without(key)), f"line 1, sample s-1: no {key}") for key in list(line())[:5]},
}


@pytest.mark.parametrize(("data", "message"), BAD_LINES.values(), ids=BAD_LINES)
def test_bad_line(data: bytes, message: str) -> None:
    _, problems = parse_predictions(data)
    assert is_fatal(problems)
    assert message in str(problems[0])


@pytest.mark.parametrize("task", ["CHIP-CDN", "CHIP-MDCFNPC", "IMCS-V2-SR"])
def test_choices_are_not_needed_where_nothing_is_looked_up(task: str) -> None:
    structured, problems = parse_predictions(jsonl(line(task, target="")))
    assert not problems
    assert structured[task] == [{"sample_id": "s-1", "answer": []}]


def test_what_is_wrong_is_in_the_order_of_the_lines() -> None:
    _, problems = parse_predictions(jsonl(line(target=1), line("CHIP-CDN"), line(target=2)))
    assert [problem.place for problem in problems] == [f"line {number}, sample s-1" for number in (1, 2, 3)]


def test_everything_wrong_is_reported_at_once_and_nothing_is_written(tmp_path: Any) -> None:
    worst = line("CMeIE-V2", target=3)
    del worst["input"]
    (tmp_path / "p.json").write_bytes(jsonl(line()) + b"{\n" + jsonl(worst, line(sample_id=2)) + b"\n")
    with pytest.raises(ProblemsError) as caught:
        parse_file(tmp_path / "p.json", tmp_path / "r.json")
    assert [line.split(" is a task")[0] for line in str(caught.value).replace(f"{tmp_path}/", "").split("\n")] == [
        "p.json: line 2: not JSON: Expecting property name enclosed in double quotes at column 2",
        "p.json: line 3, sample s-1: no input",
        "p.json: line 3, sample s-1: target is not a text",
        "p.json: line 3, sample s-1: answer_choices is not a list, and CMeIE-V2 needs one",
        "warning: p.json: line 5: blank, skipped",
    ]
    assert not (tmp_path / "r.json").exists()


# Texts made of what the parsers look for, so that the odd paths are met.
marks = st.sampled_from(
    [
        "\n",
        "：",
        ":",
        "，",
        ",",
        "；",
        "。",
        " ",
        "疾病实体",
        "具有",
        "关系的头尾实体对如下：",
        "头实体为",
        "，尾实体为",
        "主体词：",
    ]
)
targets = st.lists(marks | st.text(max_size=4), max_size=30).map("".join)


@given(task=st.sampled_from(list(PARSERS)), target=targets, choices=st.lists(st.text(max_size=3) | marks, max_size=4))
def test_any_text_parses_and_survives_the_file(task: str, target: str, choices: list[str]) -> None:
    sample = line(task, target=target, answer_choices=choices)
    structured, problems = parse_predictions(json.dumps(sample).encode())
    encodable = _encodable(sample)
    assert is_fatal(problems) != encodable
    if encodable:
        answer = structured[task][0]["answer"]
        assert answer == parse_answer(task, target, choices)
        assert json.loads(json.dumps(answer)) == answer
        assert _has_form(task)(answer)


@given(st.binary(max_size=200))
def test_any_bytes_give_problems_or_answers(data: bytes) -> None:
    structured, problems = parse_predictions(data)
    assert any(structured.values()) or is_fatal(problems)


def _encodable(sample: dict[str, Any]) -> bool:
    try:
        json.dumps(sample, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _has_form(task: str) -> Callable[[Any], bool]:
    if task in ("CMeEE-V2", "CMeIE", "CHIP-CDN", "CHIP-CDEE", "CHIP-MDCFNPC", "IMCS-V2-NER", "IMCS-V2-SR"):
        return lambda answer: isinstance(answer, list) and all(isinstance(entry, dict) for entry in answer)
    if task == "IMCS-V2-MRG":
        return lambda answer: isinstance(answer, dict) and all(isinstance(part, str) for part in answer.values())
    return lambda answer: isinstance(answer, str) and answer == answer.strip()
