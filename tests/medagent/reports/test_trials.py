"""The table of several trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from medagent.engine.report import Report
from medagent.reports.tables import print_table, report_tables
from medagent.reports.trials import trial_sections
from tests.refsol.test_trials import FOUR_TRIALS


def printed(outcomes: Mapping[str, Sequence[bool]]) -> None:
    groups = {task: task.partition("_")[0] for task in outcomes}
    sections = trial_sections(outcomes, groups, {task: task for task in outcomes})
    for table in report_tables(Report(benchmark="b", folder="f", table=tuple(sections))):
        print_table(table)


def test_the_table_shows_each_type_and_the_whole(capsys: pytest.CaptureFixture[str]) -> None:
    printed(FOUR_TRIALS)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "task tasks pass@1 ± SE pass@2 pass@4 pass^2 pass^4" in lines
    assert "all 3 50.0% 28.9% 61.1% 66.7% 38.9% 33.3%" in lines
    assert "task2 1 0.0% 0.0% 0.0% 0.0% 0.0% 0.0%" in lines
    assert any(line.startswith("4 trials") for line in lines)
    figures = [line.split()[0] for line in lines if line.startswith("pass") and "–" in line]
    assert figures == ["pass@1", "pass@2", "pass@4", "pass^2", "pass^4"], "each with its interval"


def test_a_single_trial_is_one_trial(capsys: pytest.CaptureFixture[str]) -> None:
    printed({"task1_1": [True, False], "task1_2": [True]})
    assert any(line.startswith("1 trial,") for line in capsys.readouterr().out.splitlines())


def test_the_table_stays_narrow_for_many_trials(capsys: pytest.CaptureFixture[str]) -> None:
    printed({"task1_1": [True, False] * 25})
    out = capsys.readouterr().out
    header = next(line for line in out.splitlines() if "pass@1" in line)
    assert [word for word in header.split() if word.startswith("pass^")] == [f"pass^{k}" for k in (2, 4, 8, 16, 32, 50)]
