"""Two benchmarks of somebody else's package, one judged and one with a FHIR session: every command and every adapter
takes them without a line of theirs.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import medagent
from medagent import Completion, Model, ModelError
from medagent.benchmarks.base import find_fhir
from medagent.core.errors import UserError
from medagent.fhir import HttpEpisodes
from medagent.fhir_episodes.settings import FhirSettings
from medagent.integrations.a2a._assess import Assessment, Assessor
from medagent.integrations.mcp.run import serving
from medagent.rl import Environment
from tests.command import medagent as command
from tests.harbor_task import played, reward
from tests.shared_data import ROOT
from tests.starts import start

OUTSIDER = ROOT / "tests" / "outsider"
RUNS = {
    "capitals": ("run", "capitals", "--model", "traveller", "--judge", "clerk"),
    "births": ("run", "births", "--agent", "reader"),
}
OTHERS = {
    "capitals": ("run", "capitals", "--model", "scripted:replies.json", "--judge", "clerk"),
    "births": ("run", "births", "--agent", "guesser"),
}
FOLDERS = {"capitals": "capitals_r1_Traveller", "births": "births_r1_Reader"}
RIGHT = {"capitals": (3, 4), "births": (6, 6)}
ONE = {"capitals": "Norway", "births": "B2"}


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(OUTSIDER))
    importlib.invalidate_caches()


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A run of each, killed with kill -9 and continued, and another run of each."""
    folder = tmp_path_factory.mktemp("outsiders")
    (folder / "replies.json").write_text(json.dumps({"*": ["It is Lima."]}))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(OUTSIDER), str(ROOT)])}
    for name, words in RUNS.items():
        process = start(*words, "--quiet", "--concurrency", 1, "--trials", 3, cwd=folder, env=environment)
        journal = folder / "results" / FOLDERS[name] / "episodes.jsonl"
        while not (journal.exists() and b"\n" in journal.read_bytes()):
            assert process.poll() is None
            time.sleep(0.005)
        process.kill()
        process.ended()
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(OUTSIDER))
        importlib.invalidate_caches()
        patch.chdir(folder)
        for name, words in RUNS.items():
            again = command(*words, "--trials", "3")
            assert again.code == 0, again.err
            assert re.search(r" units, [1-9]\d* already done", again.err), again.err
            assert command(*OTHERS[name], "--trials", "3").code == 0
        yield folder / "results"


@pytest.mark.parametrize("name", RUNS)
def test_a_run_is_shown_graded_reported_and_listed(name: str, results: Path, tmp_path: Path) -> None:
    folder, (right, total) = results / FOLDERS[name], RIGHT[name]
    units = [json.loads(line)["unit"] for line in (folder / "episodes.jsonl").read_text().splitlines()]
    assert len(units) == len(set(units)) == 3 * total
    shown = command("show", folder)
    assert re.search(rf"all +{3 * right} +{3 * total} ", shown.out)
    assert "verdict: " in command("show", folder, f"{ONE[name]}#2").out
    graded = json.loads(command("grade", folder, "--json").out)
    assert graded["overall"]["value"] == pytest.approx(right / total)
    page = tmp_path / "report.html"
    assert command("report", folder, "-o", page).code == 0
    assert name in page.read_text()
    assert f"{100 * right / total:.1f}%" in command("leaderboard", folder).out


@pytest.mark.parametrize("name", RUNS)
def test_runs_are_compared_item_by_item(name: str, results: Path) -> None:
    second = next(path for path in results.iterdir() if path.name.startswith(name) and path.name != FOLDERS[name])
    compared = json.loads(command("compare", results / FOLDERS[name], second, "--json").out)
    lost = {"capitals": ["Hungary", "Austria"], "births": ["B2", "B3", "B4", "B5", "B6"]}
    assert sorted(compared["lost"]) == sorted(lost[name])


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("form", ["parquet", "jsonl", "csv", "atif", "inspect", "otel"])
def test_a_run_is_exported(name: str, form: str, results: Path, tmp_path: Path) -> None:
    if form == "inspect":
        pytest.importorskip("inspect_ai", reason="the extra inspect is not installed")
    out = tmp_path / ("run.json" if form == "inspect" else "out")
    ran = command("export", form, results / FOLDERS[name], out)
    assert (ran.code, ran.err) == (0, "")
    assert out.exists()
    if form == "jsonl":
        rows = [json.loads(line) for line in out.read_text().splitlines()]
        assert sum(row["correct"] for row in rows) == 3 * RIGHT[name][0]


@pytest.mark.parametrize("name", RUNS)
def test_an_official_form_is_the_benchmarks_own(name: str, results: Path, tmp_path: Path) -> None:
    ran = command("export", "official", results / FOLDERS[name], tmp_path / "official")
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert f"{name} does not define an official format" in ran.err


def test_training_gets_its_reward_from_the_grader() -> None:
    environment = Environment(benchmark="births")
    for number in range(2):
        assert "In which year" in environment.reset(task=number)
        environment.finish(answers=[1950])
        assert environment.get_reward() == (environment.task.id == "B1")


def test_harbor_has_a_folder_a_task_and_its_verifier_grades(tmp_path: Path) -> None:
    ran = command("export", "harbor", "births", tmp_path / "tasks", "--ids", "B1,B4")
    assert ran.code == 0, ran.err
    assert sorted(path.name for path in (tmp_path / "tasks").glob("*/")) == ["B1", "B4"]
    assert "1950" not in (tmp_path / "tasks" / "B1" / "instruction.md").read_text()
    task = tmp_path / "tasks" / "B4"
    for answers, expected in (("[1985]", 1.0), ("[1950]", 0.0)):
        log = tmp_path / f"{expected}.jsonl"
        played(task, answers, log)
        assert reward(task, log, tmp_path / f"verified-{expected}") == expected
    item, grader = find_fhir("births").unpack(tmp_path / "tasks" / "B4" / "tests")
    assert (item.id, item.target) == ("B4", "[1985]")
    with grader:
        row: Any = medagent.EpisodeRow(unit="B4#1", status="completed", task_id="B4", answer="[1985]")
        assert grader.score(item, row).correct is True  # type: ignore[union-attr]  # the item is graded


def test_mcp_clients_play_its_tasks(tmp_path: Path) -> None:
    async def play(offer: Any) -> None:
        listed = await offer.call("list_tasks", {})
        assert "B6" in listed.text
        begun = (await offer.call("start_task", {"task_id": "B6"})).data["episode"]
        assert "Papp" in (await offer.call("get_patient", {"episode": begun, "family": "Papp"})).text
        await offer.call("finish", {"episode": begun, "answers": [2001]})

    settings = FhirSettings(results_dir=tmp_path)
    asyncio.run(serving(find_fhir("births"), settings, play, idle=60, say=lambda _: None, names_tasks=True))
    report = medagent.grade(tmp_path / "births_r1_mcp")
    assert [(item.item, item.correct) for item in report.items] == [("B6", True)]


class Silent(Model):
    """An agent on the other side that knows one year."""

    async def complete(self, messages: Any, **_: Any) -> Completion:
        if "id B6 " in messages[0].content:
            raise ModelError("it is gone")
        return Completion("FINISH([1950])")


def test_agents_of_a2a_are_assessed(tmp_path: Path) -> None:
    benchmark = find_fhir("births")
    with HttpEpisodes(benchmark, "http://localhost:1", {}) as episodes:
        assessor = Assessor(benchmark, {"results_dir": tmp_path}, episodes)
        report = asyncio.run(assessor.run(Assessment.read("http://localhost:2"), "purple", Silent))
    assert {item.item for item in report.items if item.correct} == {"B1"}
    assert report.owed == ("B6#1",)


def test_commands_for_fhir_sessions_take_its_name_and_refuse_others() -> None:
    for words in (("mcp",), ("a2a", "green"), ("export", "harbor")):
        shown = command(*words, "births", "--help")
        assert shown.code == 0, shown.err
        assert "--dataset <" not in shown.out
        ran = command(*words, "capitals", "--help")
        assert ran.code == 1
        assert ran.err.startswith(
            "medagent: capitals: does not run episodes on a FHIR server; name one of medagentbench, "
        )
    with pytest.raises(UserError, match="capitals: does not run episodes on a FHIR server"):
        Environment(benchmark="capitals")


def test_adapters_and_exports_name_no_benchmark() -> None:
    names = re.compile(
        "|".join(("medagentbench", "psb.?300", "fhir.?agent.?bench", "promptcblue", "simpleqa", "imapscore")), re.I
    )
    for folder in ("integrations", "export"):
        for file in (ROOT / "medagent" / folder).rglob("*.py"):
            assert not names.search(file.read_text(encoding="utf-8")), file


def test_the_samples_are_as_short_as_promised() -> None:
    lengths = {name: len((OUTSIDER / "outsider" / f"{name}.py").read_text().splitlines()) for name in RUNS}
    assert lengths["capitals"] <= 60
    assert lengths["births"] <= 80
