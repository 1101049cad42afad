from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from refsol.errors import InputError
from refsol.imapscore.imap import Imap, TermValue
from refsol.imapscore.records import RatedAnswer, Recording, read_items, read_recordings, recording_row
from refsol.imapscore.relations import Relation, ValuePair

DATA = Path(str(files("refsol.imapscore") / "data"))

ROW = {
    "Question": "What is it?",
    "Doctor_Response": "Flu.",
    "gpt_prediction": "A cold.",
    "Average_accuracy_score": 3,
    "Average_completeness_score": 2.5,
    "Average_specific_scores": 4.0,
}


def write(path: Path, *rows: dict[str, Any] | str) -> Path:
    lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_the_released_form(tmp_path: Path) -> None:
    path = write(tmp_path / "items.jsonl", ROW, "", {**ROW, "id": "x", "note": 1})
    human = {"accuracy": 3.0, "completeness": 2.5, "specificity": 4.0}
    assert read_items(path) == [
        RatedAnswer("1", "What is it?", "Flu.", "A cold.", human),
        RatedAnswer("x", "What is it?", "Flu.", "A cold.", human),
    ]


def test_a_digest_is_of_the_texts_alone() -> None:
    item = RatedAnswer("1", "q", "l", "r", {"accuracy": 1})
    assert item.digest == RatedAnswer("2", "q", "l", "r").digest
    assert len({item.digest, RatedAnswer("1", "ql", "", "r").digest, RatedAnswer("1", "q", "r", "l").digest}) == 3


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in ROW.items() if name != key}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (without("gpt_prediction"), r"items\.jsonl:2: exactly one key must end in _prediction; found: none"),
        ({**ROW, "other_prediction": "x"}, r":2: exactly one key .* found: gpt_prediction, other_prediction"),
        ({**ROW, "gpt_prediction": 3}, ":2: gpt_prediction: is not a text"),
        ({**ROW, "Average_accuracy_score": "good"}, ":2: Average_accuracy_score: "),
        ({**ROW, "Average_accuracy_score": "3"}, ":2: Average_accuracy_score: "),
        ({**ROW, "Average_specific_scores": True}, ":2: Average_specific_scores: "),
        (json.dumps(ROW).replace("2.5", "NaN"), ":2: "),
        (without("Question"), ":2: Question: "),
        ({**ROW, "Doctor_Response": None}, ":2: Doctor_Response: "),
        ({**ROW, "Average_accuracy_score": 5.1}, ":2: Average_accuracy_score: is above 5"),
        ({**ROW, "Average_accuracy_score": -1}, ":2: Average_accuracy_score: is below 0"),
        ({**ROW, "Doctor_Response": " "}, ":2: Doctor_Response: is empty"),
        ({**ROW, "gpt_prediction": "\n"}, ":2: gpt_prediction: is empty"),
        ("{", ":2: "),
        ("[]", ":2: "),
    ],
)
def test_rows_that_are_refused(tmp_path: Path, row: dict[str, Any] | str, message: str) -> None:
    with pytest.raises(InputError, match=message) as refused:
        read_items(write(tmp_path / "items.jsonl", ROW, row))
    assert "\n" not in str(refused.value)


def test_every_bad_row_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        read_items(write(tmp_path / "items.jsonl", without("Question"), ROW, {**ROW, "gpt_prediction": 3}, "{"))
    lines = [line.partition(".jsonl:")[2].split(":")[0] for line in str(refused.value).splitlines()]
    assert lines == ["1", "3", "4"]


def test_a_file_without_an_item_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"items\.jsonl: contains no items"):
        read_items(write(tmp_path / "items.jsonl", ""))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.jsonl: cannot be read: No such file or directory$"):
        read_items(tmp_path / "none.jsonl")
    (tmp_path / "gbk.jsonl").write_bytes("问题".encode("gbk"))
    with pytest.raises(InputError, match=r"gbk\.jsonl: not UTF-8, probably GBK; try --encoding gbk$"):
        read_items(tmp_path / "gbk.jsonl")


def test_items_are_no_recordings(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"(?s):1: id: is missing\n.*; each line must be an item's recorded imaps$"):
        read_recordings(write(tmp_path / "items.jsonl", ROW))


def test_two_rows_of_one_id(tmp_path: Path) -> None:
    row = {**ROW, "id": "x"}
    with pytest.raises(InputError, match="two rows have the id x"):
        read_items(write(tmp_path / "items.jsonl", row, row))


def test_recordings_are_read_as_written(tmp_path: Path) -> None:
    recording = Recording(
        "7",
        "abc",
        Imap((TermValue("follow-up", "?"),), (TermValue("age", "28"),)),
        Imap(inform=(TermValue("follow-up", "in 2-3 weeks"),)),
        Imap(inform=(TermValue("follow-up", "soon"), TermValue("advice", "rest"))),
        {ValuePair("follow-up", "in 2-3 weeks", "soon"): Relation.BELONGING},
        scores={"g-eval": 3.5},
        warnings=("relations: unknown number 9",),
    )
    failed = Recording("8", "abd", Imap(), Imap(), Imap(explicit_none=True), failure="no_agreement", reason="label")
    path = write(tmp_path / "imaps.jsonl", recording_row(recording).line(), recording_row(failed).line())
    read = read_recordings(path)
    assert read[1] == failed
    assert read[0].warnings[0] == recording.warnings[0]
    assert recording_row(read[0]).line().startswith(recording_row(recording).line()[:-40])
    assert (read[0].question, read[0].label, read[0].response) == (
        recording.question,
        recording.label,
        recording.response,
    )
    assert (read[0].relations, read[0].scores) == (recording.relations, recording.scores)


def test_what_a_recording_warns_of_is_kept(tmp_path: Path) -> None:
    row = {"id": "1", "digest": "d", "question": "Query-disease-?", "label": "Inform-flu", "response": "nothing"}
    (recording,) = read_recordings(write(tmp_path / "imaps.jsonl", row))
    assert recording.warnings == ("label: line 1: Inform without a term: 'flu' is taken as a value of 'disease'",)
    assert recording.response == Imap()


@pytest.mark.parametrize(
    "row",
    [
        {"id": "1", "question": ""},
        {"id": "1", "digest": "d", "question": "", "failure": "lost"},
        {"id": "1", "digest": "d", "question": "", "labels": ""},
        {
            "id": "1",
            "digest": "d",
            "question": "",
            "relations": [{"term": "t", "label": "a", "response": "b", "relation": "x"}],
        },
    ],
)
def test_recordings_that_are_refused(tmp_path: Path, row: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"imaps\.jsonl:1: "):
        read_recordings(write(tmp_path / "imaps.jsonl", row))


def test_the_bundled_items_and_their_recordings() -> None:
    items, recordings = read_items(DATA / "items.jsonl"), read_recordings(DATA / "imaps.jsonl")
    assert len(items) == 12
    assert [item.digest for item in items] == [recording.digest for recording in recordings]
    assert {item.id[:2] for item in items} == {"en", "zh"}
    assert all(len(item.human) == 3 for item in items)
