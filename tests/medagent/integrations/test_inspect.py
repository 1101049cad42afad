"""The benchmarks as Inspect's tasks, as far as medagent's own code goes; Inspect's own tools check the rest in
`make integrations`.
"""

from __future__ import annotations

import asyncio
import builtins
import json
from pathlib import Path
from typing import Any

import pytest

import medagent
from medagent.benchmarks.base import of_folder
from medagent.core.errors import UserError
from medagent.engine.folder import Run
from medagent.fhir_episodes.protocol import load_protocol
from medagent.fhir_episodes.tools import Toolbox
from medagent.integrations.inspect import source as inspect_source
from medagent.integrations.inspect.source import options_of_run, source_of, stored
from medagent.judging.judged import Judged, Verdict
from medagent.models.base import ToolCall
from tests.command import medagent as command

BASE = "http://localhost:8080/fhir"
WRITTEN = """
from medagent import Model, Completion
class InspectModel(Model):
    async def complete(self, messages, **_):
        return Completion('{"evaluation": "CORRECT"}')
"""

ENDLESS = """
from medagent import Agent

class Endless(Agent):
    def play(self, task, prompt):
        while True:
            if task.id == "task2_1":
                raise ValueError("no idea")
            yield "GET http://localhost:8080/fhir/Patient"
"""


@pytest.fixture(autouse=True)
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model class in the place of the one that imports Inspect; it is named, never called."""
    file = tmp_path / "stand_in.py"
    file.write_text(WRITTEN)
    monkeypatch.setattr(inspect_source, "MODEL", f"{file}:InspectModel")
    monkeypatch.setattr(inspect_source, "JUDGE", f"{file}:InspectModel")
    inspect_source._source.cache_clear()


@pytest.mark.parametrize("name", ["medagentbench", "promptcblue", "imapscore"])
def test_items_and_units_are_those_of_a_run(name: str) -> None:
    source = source_of(name, {})
    first, last = source.items[0], source.items[-1]
    assert len({item.id for item in source.items}) == len(source.items)
    assert first.question
    assert source.unit(last.id).key.startswith(last.id)
    third = source.unit(last.id, epoch=3)
    assert third.trial == 3
    assert third.key.endswith("#3")


def test_a_row_without_judgements_is_judged_by_the_model_that_grades() -> None:
    source = source_of("simpleqa", {"lang": "en"})
    item = source.items[0]
    row = source.benchmark.row(unit=item.id, status="completed", model="m", message="", reply=item.target)
    score = asyncio.run(source.score(item.id, row))
    assert score is not None
    assert score.correct is True


@pytest.mark.parametrize(
    ("name", "options"),
    [("medagentbench", {"agent": "constant"}), ("promptcblue", {"agent": "majority", "allow_empty": 1})],
)
def test_rows_in_a_log_are_graded_as_the_run_grades_them(name: str, options: dict[str, Any], tmp_path: Path) -> None:
    report = medagent.run_sync(name, results_dir=tmp_path, limit=20, **options)
    loaded = medagent.load_run(tmp_path / Path(report.folder).name)
    rows = {row.unit: row for row in loaded.rows()}
    expected = [item.value for item in report.items]
    found = []
    for item in report.items:
        row = rows.get(f"{item.item}#1") or rows[item.item]
        kept = stored(name, {}, row)  # what the log's store holds, through JSON and back
        source = source_of(kept["benchmark"], kept["options"])
        score = asyncio.run(source.score(item.item, source.benchmark.row.model_validate(kept["row"])))
        found.append(None if score is None else score.value)
    assert found == expected
    assert len(set(expected)) > 1


@pytest.mark.parametrize(("name", "agent"), [("medagentbench", "reference"), ("psb-300", "nop")])
def test_the_data_of_a_run_without_a_model_are_a_source(name: str, agent: str, tmp_path: Path) -> None:
    report = medagent.run_sync(name, agent=agent, results_dir=tmp_path, limit=2)
    run = Run(tmp_path / Path(report.folder).name)
    source = source_of(name, options_of_run(of_folder(run.path), run))
    assert {item.item for item in report.items} <= {item.id for item in source.items}


def test_judges_replies_that_a_log_has_are_not_asked_for_again() -> None:
    source = source_of("simpleqa", {})
    row = source.benchmark.row.model_validate(
        {"unit": "H01/hu", "status": "completed", "model": "x", "message": "?", "reply": "Pécs"}
    )
    values = []
    for verdict in (Verdict("A", "correct"), Verdict("B", "incorrect"), Verdict("no idea")):
        kept = stored("simpleqa", {}, row, Judged({"j": (verdict,)}))
        score = asyncio.run(source.score("H01/hu", row, kept["judged"]))
        values.append(None if score is None else score.value)
    assert values == [1.0, 0.0, None]


def test_a_benchmark_that_is_not_there_is_named() -> None:
    with pytest.raises(UserError, match="sums"):
        source_of("sums", {})


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("get_patient", {"identifier": "S1"}),
        ("get_observation", {"code": "GLU", "patient": "S1"}),
        ("get_observation_by_category", {"category": "vital-signs", "patient": "S1"}),
        ("post_servicerequest", {"resourceType": "ServiceRequest", "status": "active"}),
        ("finish", {"answers": ["S1", 60]}),
    ],
)
def test_an_action_leads_back_to_the_tool_call_that_it_came_from(name: str, arguments: dict[str, Any]) -> None:
    toolbox = Toolbox.of(load_protocol("tools"), BASE)
    action = toolbox.action(ToolCall("", name, json.dumps(arguments)))
    assert toolbox.call(action) == (name, arguments)


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("GET http://elsewhere/x", ("GET", {"url": "http://elsewhere/x"})),
        (f"POST {BASE}/Observation\nno JSON", ("POST", {"url": f"{BASE}/Observation", "body": "no JSON"})),
        ("FINISH(sixty)", ("finish", {"answers": "sixty"})),
        ("I would look at the chart", ("message", {"text": "I would look at the chart"})),
    ],
)
def test_an_action_that_no_tool_means_is_kept_as_it_is(action: str, expected: tuple[str, dict[str, Any]]) -> None:
    assert Toolbox.of(load_protocol("tools"), BASE).call(action) == expected


def test_export_says_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    medagent.run_sync(agent="reference", results_dir=tmp_path, limit=1)
    run = tmp_path / "v2_r1_reference"
    ended = command("export", "inspect", run, tmp_path / "run.log")
    assert (ended.code, ended.err.count("\n")) == (1, 1)
    assert "run.log: the name of an Inspect log must end with .eval or .json" in ended.err
    imported = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("inspect_ai"):
            raise ImportError(name)
        return imported(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    ended = command("export", "inspect", run, tmp_path / "run.eval")
    assert (ended.code, ended.err) == (
        1,
        "medagent: export inspect needs inspect-ai: pip install 'medagent[inspect]'\n",
    )


def test_a_run_becomes_a_log(tmp_path: Path) -> None:
    log_module = pytest.importorskip("inspect_ai.log", reason="needs the extra inspect")
    report = medagent.run_sync(agent="reference", results_dir=tmp_path, writes="execute", ids=["task5_1"])
    out = tmp_path / "run.eval"
    assert command("export", "inspect", tmp_path / "v2_r1_reference", out).code == 0
    log = log_module.read_eval_log(str(out))
    sample = log.samples[0]
    assert (sample.id, sample.scores["medagent_score"].value, sample.limit, sample.error) == (
        "task5_1",
        "C",
        None,
        None,
    )
    assert sample.input == next(task.text for task in medagent.tasks() if task.id == "task5_1")
    assert [event.function for event in sample.events if event.event == "tool"][-1] == "finish"
    assert sample.metadata["group"] == "task5"
    assert log.results.scores[0].metrics["overall"].value == report.overall.value == 1.0
    again = tmp_path / "again.eval"
    command("export", "inspect", tmp_path / "v2_r1_reference", again)
    second = log_module.read_eval_log(str(again))
    assert (second.eval.task_id, second.samples[0].uuid) == (log.eval.task_id, sample.uuid)


def test_how_an_episode_ended_is_a_limit_or_an_error_of_its_sample(tmp_path: Path) -> None:
    log_module = pytest.importorskip("inspect_ai.log", reason="needs the extra inspect")
    script = tmp_path / "agents.py"
    script.write_text(ENDLESS)
    medagent.run_sync(agent=f"{script}:Endless", results_dir=tmp_path, ids=["task1_1", "task2_1"], max_rounds=3)
    out = tmp_path / "run.json"
    assert command("export", "inspect", tmp_path / "v2_r1_Endless", out).code == 0
    first, second = log_module.read_eval_log(str(out)).samples
    assert (first.limit.type, first.limit.limit, first.error) == ("turn", 3.0, None)
    assert (second.limit, second.error.message) == (None, "agent_error: ValueError: no idea")
    assert "raise ValueError" in second.error.traceback
    assert [sample.scores["medagent_score"].value for sample in (first, second)] == ["I", "I"]
