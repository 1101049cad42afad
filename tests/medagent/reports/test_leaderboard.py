"""Runs as a Markdown table: a table a data set, nothing that a model wrote can break out of a cell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from medagent.engine.report import DataRef, Report, TableLine, TableSection
from medagent.reports.leaderboard import leaderboard
from tests.command import medagent
from tests.medagent.benchmarks.medagentbench.runs import run
from tests.shared_data import ROOT


def rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")]


def test_runs_are_graded_anew_and_ranked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for agent in ("nop", "reference"):
        run(Path(), "--agent", agent, "--types", "task2,task5", "--version", "v1")
    run(Path(), "--agent", "nop", "--types", "task2", "--trials", 2, "--round", "t")
    spoiled = json.loads(Path("v1_r1_nop/report.json").read_text())
    spoiled["overall"]["value"] = 1.0
    Path("v1_r1_nop/report.json").write_text(json.dumps(spoiled))
    made = medagent("leaderboard", "v1_r1_nop", "v2_t_nop", "v1_r1_reference")
    assert (made.code, made.err) == (0, "")
    table = rows(made.out)
    assert [[*line[1:3], line[4], line[7]] for line in table if line[0].isdigit()] == [
        ["reference", "100.0 %", "20", "1"],
        ["nop", table[3][2], "20", "1"],
        ["nop", "0.0 %", "30", "2"],
    ]
    assert float(table[3][2].partition(" ")[0]) < 50
    headings = [line for line in made.out.splitlines() if line.startswith("## ")]
    assert [one.partition(" (")[0] for one in headings] == [
        "## MedAgentBench-Synthetic v1",
        "## MedAgentBench-Synthetic v2",
    ]
    assert made.out.count("Not the published tasks: scores do not compare with published ones.") == 2
    assert "* Protocol: text, prompts " in made.out
    assert medagent("leaderboard", "v1_r1_nop", tmp_path).err.endswith("not a run's folder (it has no run.json)\n")


def test_published_figures_stand_below_and_texts_stay_in_their_cells() -> None:
    published = TableSection(title="Published figures", lines=(TableLine(name="GPT-4o", n=300, value=0.64),))
    report = Report(
        benchmark="b",
        folder="/somewhere/else/folder",
        data=DataRef(name="Bench"),
        settings={"model": "a|b\n| `c` <i>"},
        overall=TableLine(name="overall", n=3, value=None),
        table=(published,),
        notes=("Published figures: a paper.",),
        owed=("x",),
    )
    text = leaderboard([(report, None)])
    assert "| 1 | a\\|b \\| 'c' &lt;i> | – | – | 3 (1 more not graded) |" in text
    assert "| GPT-4o | 64.0 % |" in text
    assert "Published figures: a paper." in text
    assert "/somewhere" not in text


def test_the_table_in_the_repository_holds_the_agents_that_come_along() -> None:
    kept = rows((ROOT / "results" / "leaderboard.md").read_text(encoding="utf-8"))
    assert kept[0] == rows(leaderboard([(Report(benchmark="b", folder="x"), None)]))[0]
    assert [line[1:3] + line[4:5] for line in kept if line[0].isdigit()] == [
        ["reference", "100.0 %", "300"],
        ["examples/blind.py:Blind", kept[3][2], "300"],
        ["constant", kept[4][2], "300"],
        ["nop", "9.0 %", "300"],
    ]
    assert [line[5].partition(",")[0] for line in kept if line[0].isdigit()] == ["240 of 240", *["0 of 240"] * 3]
