"""The Python API: what is public, and that it runs, reads, grades and compares without printing anything."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

import medagent
from medagent import Agent, ReplyRow, SessionEndedError, UserError
from medagent.benchmarks.medagentbench.settings import MedAgentBenchSettings
from medagent.engine import Row
from tests.shared_data import ROOT

PUBLIC = [
    "Agent",
    "AgentContext",
    "Benchmark",
    "Check",
    "ClinicalBenchmark",
    "ClinicalSettings",
    "compare",
    "Comparison",
    "Completion",
    "Env",
    "episode",
    "EpisodeError",
    "EpisodeRow",
    "Feedback",
    "FhirBenchmark",
    "FhirItem",
    "FhirSettings",
    "FhirTask",
    "grade",
    "Grader",
    "Item",
    "load_run",
    "LoadedRun",
    "MedagentError",
    "Message",
    "Model",
    "ModelError",
    "Move",
    "Option",
    "Plan",
    "Policy",
    "ReplyRow",
    "Report",
    "run",
    "run_sync",
    "RunSettings",
    "Say",
    "Score",
    "serve_episodes",
    "set_score",
    "SessionEndedError",
    "single_turn",
    "StopRunError",
    "Task",
    "tasks",
    "Tool",
    "ToolCall",
    "Turn",
    "Usage",
    "UserError",
]


class AgeAgent(Agent):
    """Knows one thing: how old a patient is."""

    def play(self, task: Any, prompt: str) -> Iterator[str]:
        reply: Any = yield f"GET {self.context.base}Patient?identifier={task.mrn}"
        bundle = json.JSONDecoder().raw_decode(reply, reply.index("{"))[0]
        born = date.fromisoformat(bundle["entry"][0]["resource"]["birthDate"])
        yield f"FINISH([{2023 - born.year - ((born.month, born.day) > (11, 13))}])"


def test_the_public_names_are_these() -> None:
    assert sorted(medagent.__all__, key=str.lower) == sorted(PUBLIC, key=str.lower)
    assert all(getattr(medagent, name) is not None for name in medagent.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = medagent.nothing


def test_no_public_name_is_a_modules() -> None:
    modules = {path.stem for path in (ROOT / "medagent").iterdir() if not path.name.startswith("_")}
    assert modules & set(medagent.__all__) == set()


def test_a_run_of_an_agent_in_a_running_loop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def notebook() -> medagent.Report:
        return await medagent.run("medagentbench", agent=AgeAgent, types=("task2",), results_dir=tmp_path)

    report = asyncio.run(notebook())
    assert report.overall is not None
    assert (report.overall.value, report.overall.n, report.complete) == (1.0, 30, True)
    assert (report.benchmark, report.data.name, report.data.version) == (
        "medagentbench",
        "MedAgentBench-Synthetic",
        "v2",
    )
    assert [item.item for item in report.items][:2] == ["task2_1", "task2_2"]
    assert report.items[0].reason
    assert capsys.readouterr() == ("", "")
    assert (tmp_path / "v2_r1_AgeAgent" / "report.json").is_file()


def test_the_blocking_twin_works_with_and_without_a_loop(tmp_path: Path) -> None:
    options = {"agent": "nop", "limit": 3, "results_dir": tmp_path}
    report = medagent.run_sync("medagentbench", **options)

    async def cell() -> medagent.Report:
        return medagent.run_sync("medagentbench", **options)

    assert asyncio.run(cell()).items == report.items
    with pytest.raises(UserError, match="--trials: is below 1"):
        medagent.run_sync("medagentbench", trials=0)
    with pytest.raises(UserError, match=r"tirals: unknown option\. Did you mean 'trials'\?"):
        medagent.run_sync("medagentbench", tirals=2)


def test_settings_are_an_object_or_options(tmp_path: Path) -> None:
    settings = MedAgentBenchSettings(agent="nop", limit=1, results_dir=tmp_path)
    report = medagent.run_sync("medagentbench", settings)
    assert report.items == medagent.run_sync("medagentbench", agent="nop", limit=1, results_dir=tmp_path).items
    assert len(medagent.run_sync("medagentbench", settings, limit=2).items) == 2
    with pytest.raises(UserError, match="settings: expected PromptcblueSettings, not MedAgentBenchSettings"):
        medagent.run_sync("promptcblue", settings)
    few = medagent.tasks(benchmark="medagentbench", settings=MedAgentBenchSettings(version="v1"))
    assert [task.id for task in few] == [task.id for task in medagent.tasks(version="v1")]
    with pytest.raises(UserError, match="settings: expected MedAgentBenchSettings, not FhirSettings"):
        medagent.episode("task2_1", benchmark="medagentbench", settings=medagent.FhirSettings())
    with pytest.raises(UserError, match="agent: unknown option of an episode"):
        medagent.episode("task2_1", settings=settings)


def test_a_folder_is_read_graded_and_compared(tmp_path: Path) -> None:
    for agent in ("nop", "reference"):
        medagent.run_sync(agent=agent, ids=("task3_1", "task3_2", "task3_3", "task3_4"), trials=2, results_dir=tmp_path)
    nop, reference = tmp_path / "v2_r1_nop", tmp_path / "v2_r1_reference"
    loaded = medagent.load_run(reference)
    assert loaded.settings["agent"] == "reference"
    assert {row.unit for row in loaded.rows()} == {f"task3_{n}#{t}" for n in range(1, 5) for t in (1, 2)}
    assert len(loaded.report.items) == 8
    transcripts = dict(loaded.transcripts())
    assert len(transcripts) == 8
    assert [said.role for said in transcripts["task3_1#1"]][:2] == ["user", "agent"]
    assert loaded.item("task3_1#2").messages[0].role == "user"
    assert medagent.grade(reference).overall == loaded.report.overall
    assert medagent.grade(nop / "results.json", rules="fair").details["grades"][0]["rules"] == "fair"
    found = medagent.compare(nop, reference)
    assert found.gained == ("task3_1", "task3_2", "task3_3", "task3_4")
    assert [(summary.trials, summary.pass_1, summary.flipping) for summary in found.trials or ()] == [
        (2, 0.0, ()),
        (2, 1.0, ()),
    ]
    with pytest.raises(UserError, match="not a run's folder"):
        medagent.load_run(tmp_path)


def test_a_stored_report_of_an_earlier_state_is_not_believed(tmp_path: Path) -> None:
    folder = tmp_path / "v2_r1_nop"
    medagent.run_sync(agent="nop", ids=("task3_1",), results_dir=tmp_path)
    earlier = (folder / "report.json").read_bytes()
    medagent.run_sync(agent="nop", ids=("task3_1", "task3_2"), results_dir=tmp_path)
    (folder / "report.json").write_bytes(earlier)
    assert [item.item for item in medagent.load_run(folder).report.items] == ["task3_1", "task3_2"]


def test_an_episode_in_one_call() -> None:
    async def play() -> None:
        async with medagent.episode("task2_1") as e:
            with pytest.raises(SessionEndedError, match="was not started"):
                await e.act("FINISH([])")
            assert "Question: " in e.reset()
            reply = await e.call("get_patient", {"identifier": e.task.mrn})
            assert '"resourceType": "Patient"' in reply
            assert "unknown tool 'nothing'" in await e.call("nothing", {})
            await e.act("FINISH([35])")
            assert (e.done, e.outcome.status, e.verdict().correct) == (True, "completed", True)
            with pytest.raises(SessionEndedError, match="has ended"):
                await e.act("FINISH([67])")
            e.reset()
            assert (e.done, e.transcript[1:], e.verdict().correct) == (False, [], False)

    asyncio.run(play())


def test_a_reset_gives_a_fresh_record() -> None:
    base = "http://localhost:8080/fhir"
    body = {"resourceType": "Patient", "name": [{"family": "Newly-Written"}]}
    with medagent.episode("task1_1", writes="execute") as e:
        e.reset()
        assert "accepted" in e.act(f"POST {base}/Patient\n{json.dumps(body)}")
        assert "Newly-Written" in e.act(f"GET {base}/Patient?family=Newly-Written")
        first = e.transcript[2].content
        e.reset()
        assert '"total": 0' in e.act(f"GET {base}/Patient?family=Newly-Written")
        e.reset()
        assert e.act(f"POST {base}/Patient\n{json.dumps(body)}") == first


def test_episodes_of_a_group_do_not_meet() -> None:
    async def sample(number: int) -> bool | None:
        async with medagent.episode("task2_1", key=f"sample {number}") as e:
            e.reset()
            await e.act(f"FINISH([{34 + number % 2}])")
            return e.verdict().correct

    async def group() -> list[bool | None]:
        return await asyncio.gather(*map(sample, range(8)))

    assert asyncio.run(group()) == [False, True] * 4


def test_unknown_tasks_are_named() -> None:
    with pytest.raises(UserError, match="unknown task id 'task99_1'"):
        medagent.episode("task99_1")
    tasks = medagent.tasks(version="v1")
    assert len(tasks) == 100
    mixed = medagent.tasks(version="v1", mixed=True)
    assert len({task.type for task in mixed[:10]}) == 10
    assert sorted(task.id for task in mixed) == sorted(task.id for task in tasks)


def test_an_episode_by_tools_has_no_loop() -> None:
    with pytest.raises(UserError, match="--loop needs --protocol text"):
        medagent.episode("task2_1", protocol="tools", loop="lenient")
    with medagent.episode("task2_1", loop="lenient") as e:
        e.reset()
        assert "not under the FHIR base" in e.act("GET Patient?a=b")


def test_the_rows_of_other_benchmarks_are_their_own(tmp_path: Path) -> None:
    assert issubclass(ReplyRow, Row)
