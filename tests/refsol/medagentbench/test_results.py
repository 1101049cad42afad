"""The results file: what survives reading, and the one clear error for what cannot be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refsol.errors import InputError
from refsol.medagentbench import read_results
from refsol.medagentbench.recorded import MAX_BYTES, ResultsFile

ITEM: dict[str, Any] = {
    "task_id": "task1_1",
    "answer": '["S1234567"]',
    "expected_sol": ["S1234567"],
    "eval_MRN": "S1234567",
    "timestamp": "2026-01-01T00:00:00",
    "post_history": [],
    "post_count": 0,
}
FILE: dict[str, Any] = {
    "version": "v2",
    "round": "r1",
    "timestamp": "2026-01-01T00:00:00",
    "total_tasks": 1,
    "results": [ITEM],
}


def written(tmp_path: Path, content: Any) -> Path:
    path = tmp_path / "results.json"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(json.dumps(content), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (b"", ":1: is not JSON: Expecting value at column 1"),
        (b'{"version": ', ":1: is not JSON: Expecting value at column 13"),
        (b'{"a": "\xff"}', ":1: is not UTF-8 at byte 8 of the line"),
        (b"[" * 100_000, ":1: is nested too deeply"),
        (b'{"total_tasks": ' + b"1" * 5000 + b"}", ":1: is not JSON: Exceeds the limit"),
        ([], ":1: is not a JSON object"),
        ({**FILE, "results": {}}, ":1: results: "),
        ({**FILE, "version": 2}, ":1: version: "),
        ({**FILE, "total_tasks": "1"}, ":1: total_tasks: "),
        ({**FILE, "results": [ITEM, {**ITEM, "task_id": None}]}, ":1: results[1].task_id: "),
        ({**FILE, "results": [{**ITEM, "post_count": 1.5}]}, ":1: results[0].post_count: "),
        ({**FILE, "results": [{**ITEM, "post_history": "x"}]}, ":1: results[0].post_history: "),
        (
            {**FILE, "results": [{**ITEM, "post_history": [{"role": "agent"}]}]},
            ":1: results[0].post_history[0].content: ",
        ),
        (
            {**FILE, "results": [{k: v for k, v in ITEM.items() if k != "answer"}]},
            ":1: results[0].answer: is missing",
        ),
    ],
)
def test_a_bad_file_is_one_clear_error(tmp_path: Path, content: Any, place: str) -> None:
    path = written(tmp_path, content)
    with pytest.raises(InputError) as caught:
        read_results(path)
    assert str(caught.value).startswith(f"{path}{place}")
    assert "\n" not in str(caught.value)


def test_everything_that_is_wrong_is_listed_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    content = {**FILE, "round": 1, "results": [ITEM, {**ITEM, "timestamp": None}]}
    path.write_text(json.dumps(content, indent=1), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_results(path)
    assert str(caught.value).splitlines() == [
        f"{path}:3: round: is not a text",
        f"{path}:25: results[1].timestamp: is not a text",
    ]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.json: cannot be read: No such file"):
        read_results(tmp_path / "nowhere.json")


def test_a_giant_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    with path.open("wb") as file:
        file.truncate(2 * MAX_BYTES)
    with pytest.raises(InputError, match="contains 200000000 bytes"):
        read_results(path)


def test_whatever_an_agent_can_say_survives(tmp_path: Path) -> None:
    said = ["[" * 5000, "NaN", "9" * 5000, "\x00", "\u2028"]
    history = [{"role": "agent", "content": text} for text in said]
    path = written(tmp_path, {**FILE, "results": [{**ITEM, "answer": text, "post_history": history} for text in said]})
    results = read_results(path).results
    assert [item.answer for item in results] == said
    assert [message.content for message in results[0].post_history] == said


def test_an_answer_of_any_type_is_read(tmp_path: Path) -> None:
    answers = [["S1"], {"a": 1}, 1, True, None, float("inf")]
    path = written(tmp_path, {**FILE, "results": [{**ITEM, "answer": answer} for answer in answers]})
    assert [item.answer for item in read_results(path).results] == answers


texts = st.text(max_size=20)
messages = st.fixed_dictionaries({"role": st.sampled_from(["agent", "user"]), "content": texts})
entries = st.fixed_dictionaries(
    {
        "task_id": texts,
        "answer": st.none() | texts,
        "expected_sol": st.none() | st.lists(texts, max_size=2),
        "eval_MRN": st.none() | texts,
        "timestamp": texts,
        "post_history": st.lists(messages, max_size=3),
        "post_count": st.integers(),
    }
)


@given(st.lists(entries, max_size=3))
def test_reading_loses_nothing(results: list[dict[str, Any]]) -> None:
    data = {**FILE, "results": results}
    assert ResultsFile.model_validate(json.loads(json.dumps(data))).model_dump() == data
