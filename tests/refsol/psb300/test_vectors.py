"""The recorded verdicts of the published grader, and the stated ones of `fair`."""

from __future__ import annotations

import json
from collections import Counter

from tests.refsol.psb300.charts import VECTORS, rows, verdict_of
from tests.shared_data import read_xz
from tools.psb300_fair import rows as made_rows


def test_every_recorded_verdict_is_reached() -> None:
    differing = [row["case"] for row in rows("vectors") if bool(verdict_of(row).correct) is not row["verdict"]]
    assert len(rows("vectors")) == 3624
    assert differing == []


def test_where_the_published_grader_fails_the_reason_says_whose_fault_it_is() -> None:
    without_post_due = {"task2", "task6"}  # it fails there on a post that is wrong already, because none is due
    for row in rows("vectors"):
        reason = verdict_of(row).reason
        fault = reason.startswith(("the chart is at fault: ", "readable: ", "last message: "))
        if "raised" in row and row["task"]["id"].partition("_")[0] in without_post_due:
            assert fault or reason.startswith("no POST")
        elif "raised" in row:
            assert fault, row["case"]
        else:
            assert not fault or row["case"].startswith("task1-"), row["case"]


def test_every_verdict_says_why() -> None:
    for row in rows("vectors"):
        verdict = verdict_of(row)
        assert verdict.checks
        assert verdict.reason.startswith("the chart is at fault") or (verdict.because and verdict.because.facts)


def test_fair_gives_every_stated_verdict_and_differs_from_official_in_each_rule() -> None:
    fair = rows("fair")
    assert [row["case"] for row in fair if verdict_of(row, "fair").correct is not row["verdict"]] == []
    assert min(Counter(row["rule"] for row in fair).values()) >= 20
    others = {row["rule"] for row in fair if verdict_of(row).correct is not row["verdict"]}
    assert others == {row["rule"] for row in fair}


def test_the_fair_file_is_the_one_that_the_tool_makes() -> None:
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in made_rows())
    assert read_xz(VECTORS / "fair.jsonl.xz") == lines
