"""The command line itself: help, versions, mistakes in options, defaults from files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command import medagent


@pytest.fixture(autouse=True)
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def test_the_version_and_the_overview() -> None:
    assert medagent("--version").out.startswith("medagent ")
    assert medagent("version").code == 1
    assert medagent("-h") == medagent("--help") == medagent()
    assert "Run a benchmark: MedAgentBench, or the one that you name." in medagent("-h").out
    assert "\n  data " in medagent("-h").out
    assert "\n  new " in medagent("data", "-h").out
    assert "\n  push " not in medagent("data", "-h").out  # the earlier name of `ehr push`


def test_the_help_of_run_is_in_groups_and_names_the_other_benchmarks() -> None:
    out = medagent("run", "--help").out
    for heading in ("Who answers:", "Which items:", "Limits and speed:", "The run:", "The record:", "Options:"):
        assert f"\n{heading}\n" in out
    assert "Other benchmarks: fhir-agentbench, imapscore, promptcblue, " in " ".join(out.split())
    assert "--judge " in medagent("run", "simpleqa", "--help").out
    assert "--judge " not in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "--verison", "v2"], "(see medagent run medagentbench --help)"),
        (["run", "simpleqa", "--judges", "x"], "(see medagent run simpleqa --help)"),
        (["ehr", "import", "--dta", "x"], "(see medagent ehr import --help)"),
        (["shwo"], "(see medagent --help)"),
        (["run", "--limit", "0", "--agent", "nop"], "--limit: is below 1 (given: 0)"),
        (["run", "--limit", "few", "--agent", "nop"], "is not a whole number"),
        (["run", "--retry", "foo", "--agent", "nop"], "--retry: foo: cannot be retried; use one of agent_error, "),
        (["run", "simpleqa", "--model", "m"], "--judge is needed: A judge model"),
    ],
)
def test_a_mistake_names_the_command_whose_help_lists_the_options(words: list[str], said: str) -> None:
    ran = medagent(*words)
    assert ran.code == 1
    assert said in ran.err
    assert ran.err.count("\n") == 1


def test_a_group_without_a_command_shows_its_help() -> None:
    ran = medagent("ehr")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("Usage: medagent ehr")


def test_shell_completion_is_there() -> None:
    assert "--show-completion" in medagent("--help").out


def test_defaults_come_from_files_and_the_command_line_goes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pyproject.toml").write_text('[tool.medagent.run]\nround = "project"\nlimit = 1\n')
    assert medagent("run", "--agent", "nop", "--quiet").code == 0
    assert Path("results/v2_project_nop").is_dir()
    Path("medagent.toml").write_text('[run]\nround = "local"\n[run.medagentbench]\nversion = "v1"\ntypes = "task2"\n')
    assert medagent("run", "--agent", "nop", "--quiet").code == 0
    items = json.loads(Path("results/v1_local_nop/results.json").read_text())["results"]
    assert [item["task_id"].partition("_")[0] for item in items] == ["task2"]
    Path("mine.toml").write_text('[run]\nround = "mine"\n')
    assert medagent("run", "--agent", "nop", "--quiet", "--config", "mine.toml").code == 0
    assert medagent("run", "--agent", "nop", "--quiet", "--config", "mine.toml", "--round", "said").code == 0
    assert {path.name for path in Path("results").iterdir()} >= {"v1_mine_nop", "v1_said_nop"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[run]\nruond = 1", "medagent.toml: run.ruond: unknown option; the options are "),
        ("[run.medagentbench]\njudge = 1", "medagent.toml: run.medagentbench.judge: unknown option"),
        ("[rnu]\nround = 1", "medagent.toml: rnu: unknown table"),
        ("run = 1", "medagent.toml: run: not a table"),
        ("[run", "medagent.toml: not valid TOML: "),
        ("[run]\ntrials = 0", "--trials: is below 1"),
    ],
)
def test_a_mistake_in_a_file_names_file_and_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("medagent.toml").write_text(text)
    ran = medagent("run", "--agent", "nop")
    assert ran.code == 1
    assert said in ran.err
    assert ran.err.count("\n") == 1
