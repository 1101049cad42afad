"""The question file and the output file: what is read, written and refused."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from refsol.errors import InputError
from refsol.fhiragentbench import (
    COLUMNS,
    FAMILIES,
    Output,
    always_empty,
    baselines,
    family_of,
    read_outputs,
    read_questions,
    write_outputs,
)
from tests.shared_data import SHARED, need

NINE = (
    "question_id",
    "question",
    "assumption",
    "patient_fhir_id",
    "true_answer",
    "true_fhir_ids",
    "task_type",
    "expected_actions",
    "template",
)
TWELVE = (*NINE, "split", "sql_query", "val_dict")
ROW = {
    "question_id": "q1",
    "question": "What is the gender?",
    "assumption": "",
    "patient_fhir_id": "p1",
    "true_answer": "[['M']]",
    "true_fhir_ids": "{'Patient': ['p1']}",
    "task_type": "fhiragentbench",
    "expected_actions": "[]",
    "template": "What is the gender of patient {patient_id}?",
    "split": "test",
    "sql_query": "select 1",
    "val_dict": "{}",
}


def write(path: Path, *rows: dict[str, str], columns: tuple[str, ...] = NINE) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_both_forms_of_the_question_file_are_read(tmp_path: Path) -> None:
    (nine,) = read_questions(write(tmp_path / "nine.csv", ROW))
    (twelve,) = read_questions(write(tmp_path / "twelve.csv", ROW, columns=TWELVE))
    assert nine.true_ids == {"Patient": ["p1"]}
    assert (nine.split, twelve.split) == ("", "test")
    assert (nine.family, nine.types, nine.judged_answer) == ("demographics", "{Patient}", "[['M']]")


def test_a_question_without_true_ids_has_no_answer(tmp_path: Path) -> None:
    (empty,) = read_questions(write(tmp_path / "q.csv", {**ROW, "true_fhir_ids": "", "true_answer": "[[0]]"}))
    assert (empty.types, empty.judged_answer) == ("{}", "no answer")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"true_fhir_ids": "{'Patient': "}, "q.csv:2: true_fhir_ids: is not a Python literal"),
        ({"true_fhir_ids": "__import__('os').getcwd()"}, "q.csv:2: true_fhir_ids: is not a Python literal"),
        ({"true_fhir_ids": "['p1']"}, "q.csv:2: true_fhir_ids: is not an object with lists of ids by resource type"),
        ({"question_id": " "}, "q.csv:2: question_id: is empty"),
        ({"template": "What now?"}, "q.csv:2: template: unknown template 'What now?'"),
    ],
)
def test_a_row_that_cannot_be_read_is_named(tmp_path: Path, change: dict[str, str], problem: str) -> None:
    with pytest.raises(InputError) as error:
        read_questions(write(tmp_path / "q.csv", {**ROW, **change}))
    assert problem in str(error.value)


def test_all_problems_are_listed_with_their_lines(tmp_path: Path) -> None:
    longer = {**ROW, "question_id": "q2", "true_answer": "[['a']\n ['b']]"}
    broken = {**ROW, "question_id": "q3", "true_fhir_ids": "{"}
    with pytest.raises(InputError) as error:
        read_questions(write(tmp_path / "q.csv", ROW, longer, broken, ROW))
    assert [line.partition("q.csv")[2].partition(";")[0] for line in str(error.value).splitlines()] == [
        ":5: true_fhir_ids: is not a Python literal",
        ":6: duplicate question_id q1",
    ]


def test_other_columns_are_refused(tmp_path: Path) -> None:
    columns = ("question_id", "question", "answer")
    with pytest.raises(InputError, match=r"q\.csv:1: columns are missing: assumption, .*\n.*unknown columns: answer"):
        read_questions(write(tmp_path / "q.csv", ROW, columns=columns))


def test_a_row_with_other_cells_and_an_open_quote_are_named(tmp_path: Path) -> None:
    file = write(tmp_path / "q.csv", ROW)
    file.write_text(file.read_text(encoding="utf-8") + "a,b\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"q\.csv:3: contains 2 cells, not 9"):
        read_questions(file)
    file.write_text(file.read_text(encoding="utf-8") + '"open', encoding="utf-8")
    with pytest.raises(InputError, match=r"is not valid CSV"):
        read_questions(file)


def test_an_empty_file_holds_no_question(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="contains no questions"):
        read_questions(write(tmp_path / "q.csv"))


def test_the_published_questions() -> None:
    questions = read_questions(need(SHARED / "fhiragentbench" / "questions.csv"))
    assert len(questions) == 2931
    assert {question.family for question in questions} == set(FAMILIES)
    empty = always_empty(questions)
    assert (len(empty), sum(empty.values())) == (6, 146)
    assert baselines(questions) == {"nop": pytest.approx(701 / 2931), "yes": pytest.approx(976 / 2931)}


def test_a_template_of_no_family_is_an_error() -> None:
    with pytest.raises(ValueError, match="matches no family"):
        family_of("What now?")


def outputs(tmp_path: Path, value: Any) -> Path:
    path = tmp_path / "out.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def test_an_output_file_is_written_with_eleven_columns_and_read_again(tmp_path: Path) -> None:
    (question,) = read_questions(write(tmp_path / "q.csv", {**ROW, "assumption": "Now is 2150."}))
    rows = [
        Output("q1", "M", {"Patient": ["p1"]}, None, [{"role": "user"}], {"tokens": 5}),
        Output("q1", None, None, "timeout"),
    ]
    write_outputs(tmp_path / "out.json", rows, {"q1": question})
    stored = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert [tuple(row) for row in stored] == [COLUMNS, COLUMNS]
    assert stored[0]["question_with_context"] == (
        "Question: What is the gender?\nContext:\nPatient FHIR ID is p1.\nNow is 2150."
    )
    again = read_outputs(tmp_path / "out.json")
    assert [(output.answer, output.resources, output.error, output.trace, output.usage) for output in again] == [
        (output.answer, output.resources, output.error, output.trace, output.usage) for output in rows
    ]
    assert again[0].more["true_answer"] == "[['M']]"


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({}, "is not a list of rows"),
        ([], "contains no rows"),
        (["x"], "[0]: is not an object"),
        ([{"question_id": 5, "agent_answer": "", "agent_fhir_resources": {}, "error": None}], "[0].question_id"),
        ([{"question_id": "q1", "agent_answer": "", "agent_fhir_resources": {}}], "[0].error: is missing"),
    ],
)
def test_an_output_file_of_another_form_is_refused(tmp_path: Path, value: Any, problem: str) -> None:
    with pytest.raises(InputError) as error:
        read_outputs(outputs(tmp_path, value))
    assert problem in str(error.value)
    assert "an output file of FHIR-AgentBench is expected" in str(error.value)


def test_an_output_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        write_outputs(tmp_path / "missing" / "out.json", [], {})
