"""Recorded searches: what a set's rules read, with which anyone can grade offline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from refsol.clinical.recorded import RecordedSource, recorded, result_lines
from refsol.clinical.sources import NdjsonEhr, Source
from refsol.errors import FactsError, InputError
from refsol.medagentbench import PUBLISHED, grade_item
from refsol.medagentbench.twins import case_of
from tests.refsol.medagentbench.items import MRN, MadeUpEhr, lab


def written(path: Path, tasks: list[dict[str, Any]], source: Source, *, complete: bool = False) -> RecordedSource:
    """A file of the searches of some tasks, read again."""
    cases = [(case_of(task, PUBLISHED), ()) for task in tasks]
    path.write_text("".join(result_lines(recorded(cases, source, complete=complete, whole=False))), encoding="utf-8")
    return RecordedSource.of_file(path)


@pytest.mark.parametrize("complete", [True, False])
def test_recorded_searches_give_the_verdicts_of_the_patients_that_they_were_read_from(
    complete: bool,
    tmp_path: Path,
    vector_cases: list[dict[str, Any]],
    vector_tasks: dict[str, dict[str, Any]],
    vector_ehr: NdjsonEhr,
) -> None:
    tasks = [task for task in vector_tasks.values() if not task["id"].startswith("task1_")]
    source = written(tmp_path / "reads.jsonl", tasks, vector_ehr, complete=complete)
    for case in vector_cases:
        task = vector_tasks[case["task_id"]]
        for rules in ("official", "fair"):
            first, second = (
                grade_item(task, case["answer"], case["post_history"], facts, rules=rules)
                for facts in (vector_ehr, source)
            )
            assert first == second, case["case"]


def test_only_what_can_decide_is_recorded(tmp_path: Path) -> None:
    old, recent, later = "2020-01-01T00:00:00Z", "2023-11-13T00:00:00Z", "2023-12-01T00:00:00Z"
    task = {"id": "task7_1", "eval_MRN": MRN}

    def times(source: Source) -> list[Any]:
        read = written(tmp_path / "reads.jsonl", [task], source).search("Observation", patient=MRN, code="GLU")
        return [reading.get("effectiveDateTime") for reading in read]

    assert times(lab("GLU", (old, 1), ("2019-01-01T00:00:00Z", 2), (recent, 3), (later, 4))) == [recent, later]
    assert times(lab("GLU", (old, 1), (None, 2))) == [old, None], "what cannot be read decides too"


def test_a_search_that_is_not_recorded_is_a_facts_error_without_the_patient(tmp_path: Path) -> None:
    source = written(tmp_path / "reads.jsonl", [{"id": "task2_1", "eval_MRN": "S0"}], MadeUpEhr())
    assert list(source.search("Patient", identifier="S0")) == []
    with pytest.raises(
        FactsError, match=r"reads\.jsonl: does not contain the result of a search of Observation"
    ) as said:
        source.search("Observation", patient="S0", code="MG")
    assert "S0" not in str(said.value)


@pytest.mark.parametrize("name", ["task2_1", "task4_1"])
def test_nothing_is_recorded_of_patients_that_are_away(name: str, tmp_path: Path) -> None:
    with pytest.raises(FactsError, match="no answer"):
        written(tmp_path / "reads.jsonl", [{"id": name, "eval_MRN": MRN}], MadeUpEhr(away=True))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('{"search": "Patient?', "contains no recorded searches"),  # an interrupted line
        ("[]\n", ":1: is not a search with its resources"),
        ('{"search": "Patient?identifier=S0", "resources": []}\n{"a": 1}\n', ":2: is not a search with its resources"),
        ("[" * 100_000 + "\n", ":1: is not a search with its resources"),
    ],
)
def test_a_file_that_contains_no_searches_is_one_line(tmp_path: Path, content: str, problem: str) -> None:
    path = tmp_path / "reads.jsonl"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=rf"reads\.jsonl:? ?{problem}"):
        RecordedSource.of_file(path)
    with pytest.raises(InputError, match="cannot be read"):
        RecordedSource.of_file(tmp_path / "none.jsonl")
