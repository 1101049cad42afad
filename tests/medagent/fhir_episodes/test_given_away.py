"""What a run's own prompt gives away beyond the published one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from medagent.fhir_episodes.given_away import given_away
from tests.command import medagent

PUBLISHED = "You use FHIR functions.\nReply FINISH([answer1, answer2]).\nIt is 2023-11-13."


@pytest.mark.parametrize(
    ("line", "kind", "text"),
    [
        ("If magnesium is low, give 1 g over time.", "doses", "1 g"),
        ("Order 20 mEq of potassium.", "doses", "20 mEq"),
        ("Magnesium is low below 1.9 mg/dL.", "limits", "below 1.9 mg/dL"),
        ("Only results within 24 hours count.", "limits", "within 24 hours"),
        ("The HbA1c is LOINC 4548-4.", "codes", "4548-4"),
        ("The drug is NDC 0338-1715-40.", "codes", "0338-1715-40"),
        ("Without a result, answer [-1].", "answers", "[-1]"),
        ('Else answer ["Patient not found"].', "answers", '["Patient not found"]'),
    ],
)
def test_doses_limits_codes_and_answers_are_found_with_their_lines(line: str, kind: str, text: str) -> None:
    assert [tuple(part) for part in given_away(PUBLISHED, f"{PUBLISHED}\n{line}")] == [(kind, text, line)]


@pytest.mark.parametrize(
    "text",
    [PUBLISHED, f"  {PUBLISHED}  ", f"Think step by step, in at most 8 steps.\n{PUBLISHED}", "It is 2023-11-13."],
)
def test_a_prompt_without_such_parts_gives_nothing_away(text: str) -> None:
    assert given_away(PUBLISHED, text) == []


def test_a_run_with_such_a_prompt_has_a_note(tmp_path: Path) -> None:
    system = tmp_path / "system.txt"
    system.write_text("You are careful.\nLow magnesium is below 1.9 mg/dL: order 2 g.\n", encoding="utf-8")
    (tmp_path / "replies.json").write_text(json.dumps({"*": ["FINISH([])"]}), encoding="utf-8")
    run = ("run", "--model", f"scripted:{tmp_path}/replies.json", "--limit", 1, "--results-dir", tmp_path / "results")
    ran = medagent(*run, "--system", system, "--quiet", "--full")
    line = "Low magnesium is below 1.9 mg/dL: order 2 g."
    assert f"The prompt gives away: limits: below 1.9 mg/dL (in: {line}); doses: 2 g (in: {line})" in ran.out
    system.write_text("You are careful.\n", encoding="utf-8")
    assert "gives away" not in medagent(*run, "--round", "plain", "--system", system, "--quiet", "--full").out
