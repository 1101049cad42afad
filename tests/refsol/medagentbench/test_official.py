"""The official verdict on 4,000 made-up items and on a real results file, over each kind of EHR."""

from __future__ import annotations

import json
from typing import Any

from refsol.medagentbench import NdjsonEhr, Source, grade_item
from tests.shared_data import SHARED, need

REAL = SHARED / "medagentbench" / "results_v2_r2_20251127_000553.json"


def disagreements(cases: list[dict[str, Any]], tasks: dict[str, dict[str, Any]], ehr: Source) -> list[str]:
    return [
        f"{case['case']}: {verdict.correct} for {case['verdict']}: {verdict.reason}"
        for case in cases
        if (verdict := grade_item(tasks[case["task_id"]], case["answer"], case["post_history"], ehr)).correct
        is not case["verdict"]
    ]


def test_every_vector_has_the_official_verdict(
    vector_cases: list[dict[str, Any]], vector_tasks: dict[str, dict[str, Any]], vector_ehr: NdjsonEhr
) -> None:
    assert len(vector_cases) == 4000
    assert disagreements(vector_cases, vector_tasks, vector_ehr) == []


def test_no_vector_that_is_right_officially_is_wrong_in_fair(
    vector_cases: list[dict[str, Any]], vector_tasks: dict[str, dict[str, Any]], vector_ehr: NdjsonEhr
) -> None:
    lost = [  # the kinds that are: test_meaning.py
        case["case"]
        for case in vector_cases
        if case["verdict"]
        and not grade_item(
            vector_tasks[case["task_id"]], case["answer"], case["post_history"], vector_ehr, rules="fair"
        ).correct
    ]
    assert lost == []


def test_the_real_results_file_has_every_official_verdict() -> None:
    results = json.loads(need(REAL).read_text(encoding="utf-8"))["results"]
    official = json.loads(need(REAL.with_suffix(".verdicts.json")).read_text(encoding="utf-8"))
    published = SHARED / "medagentbench" / "official" / "test_data_v2.json"
    tasks = {task["id"]: task for task in json.loads(need(published).read_text(encoding="utf-8"))}
    ehr = NdjsonEhr(need(SHARED / "medagentbench" / "rebuilt_ehr.ndjson"))
    verdicts = {
        item["task_id"]: grade_item(tasks[item["task_id"]], item["answer"], item["post_history"], ehr).correct
        for item in results
    }
    assert verdicts == official
    assert sum(verdict is True for verdict in verdicts.values()) == 275
