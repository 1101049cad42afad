"""Runs as Markdown: a board for what can be compared, ranks with intervals, texts that stay in their cells."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from fhir_server.synthetic.bundled import DIGEST
from medagent.core.writing import file_digest
from medagent.engine.report import DataRef, Report, TableLine, TableSection
from medagent.reports.leaderboard import Entry, leaderboard
from tests.command import medagent
from tests.medagent.benchmarks.medagentbench.runs import run
from tests.medagent.reports.coins import BENCHMARK, coins
from tests.shared_data import ROOT


def rows(text: str) -> list[dict[str, str]]:
    """The rows of all tables, by their columns."""
    found, columns = [], list[str]()
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]] if line.startswith("| ") else []
        if not cells:
            columns = []
        elif not columns:
            columns = cells
        elif set(cells) != {"---"}:
            found.append(dict(zip(columns, cells, strict=True)))
    return found


def test_runs_are_graded_anew_and_only_complete_ones_are_ranked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thirty items with 100% do not stand above 100 with 18%, and another version has its own board."""
    monkeypatch.chdir(tmp_path)
    run(Path(), "--agent", "nop", "--version", "v1")
    run(Path(), "--agent", "reference", "--types", "task3", "--version", "v1")
    run(Path(), "--agent", "nop", "--types", "task2", "--trials", 2, "--round", "t")
    run(Path(), "--agent", "nop", "--version", "v1", "--max-rounds", 4, "--round", "short")
    spoiled = json.loads(Path("v1_r1_nop/report.json").read_text())
    spoiled["overall"]["value"] = 1.0
    Path("v1_r1_nop/report.json").write_text(json.dumps(spoiled))
    made = medagent("leaderboard", "v1_r1_nop", "v2_t_nop", "v1_r1_reference", "v1_short_nop")
    assert (made.code, made.err) == (0, "")
    listed = rows(made.out)
    names = ("place", "reason", "who", "of", "trials k")
    assert [[row.get(name, "") for name in names] for row in listed] == [
        ["1", "", "nop", "100", "1"],
        ["", "10 of 100 items", "reference", "10", "1"],
        ["", "60 of 600 episodes", "nop", "60", "2"],
        ["1", "", "nop", "100", "1"],
    ]
    assert float(listed[0]["rate"].rstrip("%")) < 50
    headings = [line for line in made.out.splitlines() if line.startswith("## ")]
    assert [heading.partition(" (")[0] for heading in headings] == [
        "## MedAgentBench-Synthetic v1",
        "## MedAgentBench-Synthetic v2",
        "## MedAgentBench-Synthetic v1",
    ]
    assert "protocol text, loop published, writes ack, max-rounds 8)" in headings[0]
    assert "max-rounds 4)" in headings[2]
    assert made.out.count("Synthetic patients: not comparable with published scores.") == 3
    assert "* Protocol: text, prompts " in made.out
    assert medagent("leaderboard", "v1_r1_nop", tmp_path).err.endswith("not a run's folder (run.json is missing)\n")


def test_other_patients_have_another_board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run on another file is neither ranked nor silently compared with the data set's; a run on a server is."""
    monkeypatch.chdir(tmp_path)
    Path("few.ndjson").write_text('{"resourceType": "Patient", "id": "S1"}\n')
    run(Path(), "--agent", "nop", "--version", "v1")
    run(Path(), "--agent", "nop", "--version", "v1", "--ehr", "few.ndjson", "--round", "few")
    shutil.copytree("v1_r1_nop", "served")
    document = json.loads(Path("served/run.json").read_text())
    document["settings"] |= {"ehr-digest": None, "fhir": "http://hapi:8080/fhir"}
    Path("served/run.json").write_text(json.dumps(document))
    made = medagent("leaderboard", "v1_few_nop", "v1_r1_nop", "served")
    assert (made.code, made.err) == (0, "")
    few, whole = made.out.split("\n## ")[1:]
    assert [len(rows(board)) for board in (few, whole)] == [1, 2]
    assert f", patients {DIGEST[:12]}, rules official" in whole
    assert "Data set: MedAgentBench-Synthetic v1, " in whole
    assert ", patients on hapi:8080; " in whole
    note = f"different patients (digests {file_digest(Path('few.ndjson'))[:12]} and {DIGEST[:12]})"
    for flags in ((), ("--markdown",)):
        assert note in medagent("compare", "v1_few_nop", "v1_r1_nop", *flags).out
        assert note in medagent("compare", "v1_few_nop", "served", *flags).out
        assert "different patients" not in medagent("compare", "v1_r1_nop", "served", *flags).out
    several = medagent("compare", "v1_r1_nop", "v1_few_nop", "served").out
    assert several.splitlines()[-1] == "v1_few_nop: different patients from A's"


def test_ranks_have_intervals_and_rows_say_who_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs differ on four items of sixty, one each way and two for one of them; a third is far behind."""
    monkeypatch.chdir(tmp_path)
    folders = [coins(right, label=label) for label, right in (("a", "0-39"), ("b", "1-40,50"), ("c", "0-9"))]
    made = medagent("leaderboard", *folders, *BENCHMARK)
    assert (made.code, made.err) == (0, "")
    assert [(row["place"], row["rank, 95%"], row["who"]) for row in rows(made.out)] == [
        ("1", "1–2", f"{BENCHMARK[1].replace('Coins', 'Coin')}(right=1-40,50)"),
        ("1", "1–2", f"{BENCHMARK[1].replace('Coins', 'Coin')}(right=0-39)"),
        ("3", "3", f"{BENCHMARK[1].replace('Coins', 'Coin')}(right=0-9)"),
    ]


def test_the_rate_of_a_board_is_the_mean_of_all_trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Right on 45 of 60 items in two of three trials: 50%, not the 75% of the first trial."""
    monkeypatch.chdir(tmp_path)
    folder = coins("0-44", "1,2", trials=3)
    (row,) = rows(medagent("leaderboard", folder, *BENCHMARK).out)
    assert (row["rate"], row["of"], row["trials k"]) == ("50.0%", "180", "3")
    low, high = map(float, row["95%"].split("–"))
    assert low < 50 < high
    assert row["pass@k"].startswith("75.0% (6")
    assert row["pass^k"].startswith("0.0% (0.0–")


def test_trials_that_only_some_items_have_are_not_in_the_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = coins("0-44", "1,2", trials=2)
    journal = Path(folder) / "episodes.jsonl"
    lines = journal.read_text().splitlines()
    lost = [line for line in lines if json.loads(line)["unit"].endswith("#2")][5:]
    journal.write_text("".join(f"{'' if line in lost else line}\n" for line in lines))
    made = medagent("leaderboard", folder, *BENCHMARK)
    assert made.code == 0, made.err
    (row,) = rows(made.out)
    assert (row["trials k"], row["pass@k"], row["pass^k"]) == ("1", "–", "–")


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
    text = leaderboard([Entry(report, 3)])
    assert "| 0 of 3 items | a\\|b \\| 'c' &lt;i> | – | – | – | – | 3 |" in text
    assert "| GPT-4o | 64.0% |" in text
    assert "Published figures: a paper." in text
    assert "/somewhere" not in text


def test_the_table_in_the_repository_holds_the_agents_that_come_along() -> None:
    kept = rows((ROOT / "results" / "leaderboard.md").read_text(encoding="utf-8"))
    made = rows(leaderboard([Entry(Report(benchmark="b", folder="x"), 1)]))
    assert [*kept[0]][2:] == [*made[0]][1:]
    blind, constant = kept[1]["rate"], kept[2]["rate"]
    assert [(row["place"], row["who"], row["rate"], row["of"]) for row in kept] == [
        ("1", "reference", "100.0%", "300"),
        ("2", "examples/blind.py:Blind", blind, "300"),
        ("3", "constant", constant, "300"),
        ("4", "nop", "9.0%", "300"),
    ]
    assert [row["grounded"].partition(",")[0] for row in kept] == ["240 of 240", *["0 of 240"] * 3]
