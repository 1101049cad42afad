"""What an option says once is used everywhere: needs, uses, second names, options that set several fields."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import pytest

import medagent
from medagent import UserError
from medagent.benchmarks.base import find, names
from medagent.benchmarks.medagentbench.settings import MedAgentBenchSettings
from medagent.core.options import Option, checked, options, refuse_idle
from medagent.engine.settings import RunSettings
from tests.command import Ran
from tests.command import medagent as command

TASKS = [{"id": f"task1_{n}", "instruction": "What is the MRN?", "sol": ["S1"]} for n in (1, 2)]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder with a file of tasks and the replies of a model."""
    monkeypatch.chdir(tmp_path)
    Path("mine.json").write_text(json.dumps(TASKS))
    Path("replies.json").write_text(json.dumps({"*": ["FINISH([])"]}))
    return tmp_path


def run(*words: object) -> Ran:
    return command("run", *words, "--quiet")


def document(folder: str) -> Any:
    return json.loads(Path("results", folder, "run.json").read_text())


HOME = "http://ehr.test/fhir/"
EARLIER = (
    "--tasks-file x",
    "--tasks task1",
    "--api-base http://ehr.test/fhir/",
    "--unit-time 60",
    "--learn-from facts",
)


@pytest.mark.parametrize("words", EARLIER)
def test_earlier_names_are_unknown_options(here: Path, words: str) -> None:
    ran = run("--agent", "nop", *words.split())
    assert (ran.code, "No such option" in ran.err) == (1, True), ran.err
    assert not Path("results").exists()


def test_a_task_file_is_a_place_of_the_run(here: Path) -> None:
    assert run("--agent", "nop", "--dataset", "mine.json", "--per-item", "time=60,cost=0.5").code == 0
    content = document("mine_r1_nop")
    assert content["places"]["dataset"] == "mine.json"
    kept = {name: content["settings"][name] for name in ("version", "dataset", "unit-time", "unit-tokens", "unit-cost")}
    assert kept == {"version": None, "dataset": None, "unit-time": 60.0, "unit-tokens": None, "unit-cost": 0.5}
    assert content["settings"]["sequential"] is None
    refused = run("--agent", "nop", "--dataset", "mine.json", "--per-item", "time=61,cost=0.5")
    assert refused.code == 1
    assert "unit-time 60.0 → 61.0" in refused.err
    assert "--per-item time=60.0,cost=0.5" in refused.err  # the command that continues it
    assert "--dataset mine.json" in refused.err
    assert command("grade", "results/mine_r1_nop").code == 0


def test_a_run_has_the_same_label_by_either_name(here: Path) -> None:
    assert run("--agent", "nop", "--limit", 1, "--name", "one").code == 0
    again = run("--agent", "nop", "--limit", 1, "--round", "one")
    assert (again.code, "is complete and was not changed" in again.err) == (0, True)
    Path("medagent.toml").write_text('[run]\nname = "two"\n[run.medagentbench]\ntypes = "task1"\n')
    assert run("--agent", "nop").code == 0
    assert {"v2_one_nop", "v2_two_nop"} == {path.name for path in Path("results").iterdir()}


def test_files_keep_the_earlier_names(here: Path) -> None:
    words = ("--agent", "nop", "--types", "task1", "--limit", 1, "--shown-base", HOME)
    assert run(*words).code == 0
    content = document("v2_r1_nop")
    assert (content["settings"]["api-base"], content["settings"]["round"], content["places"]["tasks"]) == (
        HOME, "r1", "task1",
    )  # fmt: skip
    refused = run(*words[:-1], "http://other.test/fhir/")
    assert f"medagent run --agent nop --shown-base {HOME}" in refused.err
    assert "--limit 1 --types task1" in refused.err
    graded = command("grade", "results/v2_r1_nop", "--tasks", "mine.json")
    assert "hint" not in graded.err
    assert graded.code == 1


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (
            ("--code", "minutes=3"),
            "--code minutes=3: write NAME=VALUE,… with the names seconds, memory, requests, output",
        ),
        (("--code", "seconds"), "--code seconds: write NAME=VALUE,…"),
        (("--code", "seconds=soon"), "--code seconds: is not a number (given: 'soon')"),
        (("--code", "memory=1"), "--code memory: is below 64"),
        (("--code", "seconds=3"), "--code seconds needs --protocol code"),
        (("--per-item", "time=0"), "--per-item time: is not above 0"),
        (("--cluster", "tcp://127.0.0.1:1", "--workers", 2), "--cluster and --workers exclude each other"),
        (("--loop", "lenient", "--protocol", "code"), "--loop needs --protocol text"),
        (("--code-tool", "--protocol", "code"), "--code-tool needs --model"),
    ],
)
def test_what_does_not_fit_is_one_line(here: Path, words: tuple[object, ...], problem: str) -> None:
    ran = run("--agent", "nop", *words)
    assert ran.code == 1
    assert problem in ran.err.splitlines()[-1]
    assert not Path("results").exists()


def test_help_shows_one_option_for_the_fields_that_share_it() -> None:
    text = " ".join(command("run", "--help-all").out.split())
    assert "--code seconds=30,memory=512,requests=2000,output=20000" in text
    assert "--per-item time=…,tokens=…,cost=…" in text
    assert all(f"--{name}" not in text for name in ("code-seconds", "unit-time", "learn-from", "tasks-file"))
    assert "An agent of the benchmark (text, reference, nop, constant, replay)," in text


def test_keywords_are_fields_and_a_misspelt_one_gets_a_suggestion() -> None:
    words = {"types": "task1,task2", "code_seconds": 3, "model": "m", "protocol": "code"}
    settings = checked(MedAgentBenchSettings, words)
    assert (settings.types, settings.code_seconds) == (("task1", "task2"), 3.0)
    with pytest.raises(UserError, match=r"modle: unknown option\. Did you mean 'model'\?"):
        medagent.run_sync("medagentbench", modle="m")
    with pytest.raises(UserError, match=r"max_round: unknown option\. Did you mean 'max_rounds'\?"):
        medagent.episode("task2_1", max_round=3)
    with pytest.raises(UserError, match=r"--ruels does not apply to r\.json, .*\. Did you mean 'rules'\?"):
        medagent.grade("r.json", ruels="fair")


def test_settings_are_one_model_and_each_use_reads_its_part() -> None:
    settings = MedAgentBenchSettings(version="v1", protocol="tools")
    with medagent.episode("task2_1", settings=settings) as e:
        assert [tool.name for tool in e.tools][-1] == "finish"
    with pytest.raises(
        UserError, match="limit: unknown option of an episode; the options are allow_writes, api_base, "
    ):
        medagent.episode("task2_1", settings=settings, limit=3)
    with pytest.raises(UserError, match="--protocol code: an episode acts by text or tools"):
        medagent.episode("task2_1", protocol="code")


def test_every_need_and_every_exclusion_names_something() -> None:
    for name in names():
        model = find(name).Settings
        fields = {option.name for option in options(model)}
        for option in options(model):
            assert {*option.option.without.split()} - {"batch"} <= fields, f"{name} --{option.flag}"
            assert all(hasattr(model, need) or need in fields for need in option.option.needs.split()), option.flag


class Own(RunSettings):
    """An option that needs a property of the settings, which nobody says how to set."""

    level: Annotated[int | None, Option("Mine", kind="value", needs="is_hard")] = None

    @property
    def is_hard(self) -> bool:
        return self.round == "hard"


def test_a_benchmark_of_ones_own_states_needs_in_the_same_way() -> None:
    assert Own(round="hard", level=2).decides()["level"] == 2
    assert Own(round="easy").decides()["level"] is None
    with pytest.raises(UserError, match="--level needs --is-hard"):
        refuse_idle(Own.model_construct(_fields_set={"level"}, level=2, round="easy"))
