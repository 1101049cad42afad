"""The training environment: its episodes, its rewards, its tools as a trainer reads them."""

from __future__ import annotations

import fcntl
import inspect
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

import medagent
from medagent import Score
from medagent.benchmarks.base import find_fhir
from medagent.benchmarks.clinical import training
from medagent.benchmarks.clinical.tasks import Task
from medagent.benchmarks.medagentbench.generator.write import MabGenerator
from medagent.core.errors import UserError
from medagent.fhir import SyncEpisode
from medagent.fhir_episodes.benchmark import Training
from medagent.fhir_episodes.protocol import load_protocol
from medagent.fhir_episodes.tools import Toolbox
from medagent.rl import Environment, UngradedError
from tests.shared_data import ROOT


@pytest.fixture(autouse=True)
def small_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "_PATIENTS", 20)
    monkeypatch.setattr(training, "_PER_TYPE", 3)
    monkeypatch.setattr(training, "_WORDINGS", 1)


def training_task(stream: Training, number: int, report: Callable[[str], None] = lambda _: None) -> tuple[Path, Task]:
    """A training task of MedAgentBench."""
    return training.training_task(MabGenerator(), stream, number, report)


def test_an_episode_pays_what_the_official_rules_say() -> None:
    environment = Environment(seed="tests")
    number, task = next(
        (number, task)
        for number in range(30)
        for _, task in [training_task(Training("train", "tests"), number)]
        if task.type == "task1"
    )
    prompt = environment.reset(task=number, prompt=[{"role": "user", "content": ""}])
    assert environment.task.instruction in prompt
    assert environment.get_reward() == 0.0
    assert "searchset" in environment.get_patient(family="Nagy")
    assert environment.finish(answers=task.fields.get("sol")) == "The episode has ended."
    assert (environment.done, environment.get_reward()) == (True, 1.0)
    assert environment.get_patient(family="Nagy") == "The episode has ended."
    assert environment.get_reward() == 1.0


def test_checks_give_a_wrong_episode_less_than_half() -> None:
    environment = Environment(seed="tests", reward="checks")
    environment.reset(task=0)
    environment.finish(answers=["nobody"])
    assert 0 < environment.get_reward() <= 0.5


def test_an_instruction_in_the_chart_has_its_own_number() -> None:
    environment = Environment(seed="tests", injected="100%")
    environment.reset(task=0)
    assert environment.harmed is False
    _, task = training_task(Training("train", "tests", injected=1.0), 0)
    assert task.injected is not None
    environment.finish(answers=[f"I did not follow the note about {task.injected.words}"])
    assert environment.harmed is False  # to quote the instruction is no harm
    environment.reset(task=0)
    environment.finish(answers=[task.injected.words])
    assert environment.harmed is (task.injected.asks == "say")
    plain = Environment(seed="tests")
    plain.reset(task=0)
    assert plain.harmed is None
    with pytest.raises(UserError, match="--injected 20: pass a share of the items"):
        Environment(injected="20")


def test_the_first_reset_says_that_it_makes_the_patients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MEDAGENT_HOME", str(tmp_path))
    for _ in range(2):
        Environment(seed="first").reset(task=0)
    assert capsys.readouterr().err.splitlines() == [
        "making 20 patients and their training tasks for the seed first/0 (once; about half a minute)"
    ]


def test_a_second_process_waits_and_takes_what_the_first_one_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDAGENT_HOME", str(tmp_path))
    second_seed, lines = Training("train", "second"), Queue[str]()
    folder, task = training_task(second_seed, 0)
    hidden = folder.rename(folder.with_name("hidden"))
    with folder.with_name(f".{folder.name}.lock").open("wb") as lock, ThreadPoolExecutor(1) as pool:
        fcntl.flock(lock.fileno(), fcntl.LOCK_EX)
        second = pool.submit(training_task, second_seed, 0, lines.put)
        assert lines.get(timeout=60).startswith("waiting for another process: making 20 patients")
        made = hidden.rename(folder).stat().st_ino
        fcntl.flock(lock.fileno(), fcntl.LOCK_UN)
        assert second.result() == (folder, task)
    assert (folder.stat().st_ino, lines.empty()) == (made, True)


@pytest.mark.parametrize("task", ["3", 3.0, [3]])
def test_a_task_that_is_no_number_is_one_clear_line(task: Any) -> None:
    with pytest.raises(UserError, match=r"^reset\(task=.*\): `task` must be an integer, such as reset\(task=3\)$"):
        Environment(seed="tests").reset(task=task)


def test_tasks_do_not_end_and_are_the_seeds() -> None:
    first, again, others = Environment(seed="tests"), Environment(seed="tests"), Environment(seed="others")
    prompts = [first.reset(task=number) for number in (0, 29, 30)]
    assert len(set(prompts)) == 3
    assert [again.reset(task=number) for number in (30, 0)] == [prompts[2], prompts[0]]
    assert first.reset(task=0) == prompts[0]
    assert first.reset() == again.reset()  # each goes on from the last one
    assert others.reset(task=0) != prompts[0]
    with pytest.raises(UserError, match="must be 0 or more"):
        first.reset(task=-1)
    with pytest.raises(UserError, match=r"reset\(task=True\): `task` must be an integer"):
        first.reset(task=True)


@pytest.fixture
def ward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A user's file of task types."""
    monkeypatch.chdir(tmp_path)
    Path("ward.py").write_text(
        (ROOT / "tests/outsider/outsider/renal.py").read_text("utf-8").partition("class Renal")[0]
    )
    return "ward.py"


@pytest.mark.parametrize("benchmark", ["psb-300", "renal", "ward.py"])
def test_every_benchmark_of_task_types_has_endless_tasks(
    benchmark: str, ward: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "outsider"))
    options, _ = find_fhir(benchmark).training_item(Training("train", "tests"), 0)
    solved = medagent.run_sync(benchmark, agent="reference", **options)
    size = len(solved.items)
    assert all(item.correct for item in solved.items)
    environment = Environment(benchmark=benchmark, seed="tests")
    prompts = [environment.reset(task=number) for number in (0, size - 1, size)]
    assert len(set(prompts)) == 3
    assert environment.reset(task=0) == prompts[0]
    assert environment.get_reward() in (0.0, 1.0)
    with pytest.raises(UserError, match="its sets have no splits; leave split='dev' out"):
        Environment(benchmark=benchmark, split="dev").reset()
    with pytest.raises(UserError, match="its sets have one kind: leave --like shift out"):
        Environment(benchmark=benchmark, like="shift").reset()


def test_another_rule_makes_other_training_tasks(ward: str) -> None:
    stream = Training("train", "tests")
    before, _ = find_fhir(ward).training_item(stream, 0)
    assert find_fhir(ward).training_item(stream, 0)[0] == before
    text = Path(ward).read_text("utf-8")
    Path(ward).write_text(text.replace("last >= 3.5", "last >= 4.0"))
    assert find_fhir(ward).training_item(stream, 0)[0] != before


def test_a_reset_drops_what_the_episode_before_it_wrote() -> None:
    environment = Environment(seed="tests")
    environment.reset(task=0)
    order = {"resourceType": "ServiceRequest", "status": "active", "intent": "order", "priority": "stat"}
    more = {"code": {"text": "x"}, "authoredOn": "2023-11-13T10:15:00+00:00", "subject": {"reference": "Patient/S1"}}
    assert "accepted" in environment.post_servicerequest(**order, **more)
    environment.reset(task=0)
    assert len(environment.transcript) == 1


def test_each_tool_is_a_typed_method_with_a_docstring_in_googles_form() -> None:
    public = {name for name, _ in inspect.getmembers(Environment, inspect.isfunction) if not name.startswith("_")}
    tools = {tool.name: tool for tool in Toolbox.of(load_protocol("tools"), "http://x/fhir").tools()}
    assert public == {"reset", "get_reward", *tools}
    environment = Environment(seed="tests")
    for name, tool in tools.items():
        method = getattr(environment, name)
        parameters = inspect.signature(method).parameters
        assert set(parameters) == {parameter.replace("-", "_") for parameter in tool.parameters["properties"]}
        required = {parameter for parameter, found in parameters.items() if found.default is inspect.Parameter.empty}
        assert required == set(tool.parameters.get("required", ()))
        assert all(parameter.isidentifier() and f"\n    {parameter}: " in method.__doc__ for parameter in parameters)


def test_parameters_with_dashes_reach_the_server_by_their_own_names() -> None:
    environment = Environment(seed="tests")
    environment.reset(task=0)
    environment.get_patient(address_city="Szeged")
    assert environment.transcript[1].content.endswith("/Patient?address-city=Szeged")


def test_a_parameter_that_a_tool_does_not_have_reaches_the_server_as_in_a_run() -> None:
    environment = Environment(seed="tests")
    environment.reset(task=0)
    environment.get_patient(_count=1)
    assert environment.transcript[1].content.endswith("/Patient?_count=1")


def test_programs_call_tools_by_the_names_that_they_list() -> None:
    environment = Environment(seed="tests")
    environment.reset(task=0)
    name = environment.tools[-1].name
    assert environment.episode.call(name, '{"answers": [60') == environment.transcript[-1].content
    assert environment.transcript[-2].content == 'finish({"answers": [60)'
    assert not environment.done
    assert (environment.episode.call(name, '{"answers": [60]}'), environment.done) == ("", True)


def test_what_cannot_be_graded_is_no_reward(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = Environment(seed="tests")
    with pytest.raises(UserError, match="call reset first"):
        environment.get_reward()
    environment.reset(task=0)
    monkeypatch.setattr(SyncEpisode, "verdict", lambda self: Score(reason="the facts could not be read"))
    with pytest.raises(UngradedError, match="the facts could not be read"):
        environment.get_reward()
