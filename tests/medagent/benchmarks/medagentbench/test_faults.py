"""What a flaky endpoint does to a run: every episode is accounted for, and what finished is right."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medagent.benchmarks.medagentbench.benchmark import MedAgentBench
from medagent.benchmarks.medagentbench.settings import MedAgentBenchSettings
from medagent.models.settings import ModelSettings
from tests import runs
from tests.command import Ran
from tests.loopback import Call, Fault, ModelServer, status
from tests.medagent.benchmarks.medagentbench.faults import CONTEXT_FULL, FAULTS
from tests.medagent.benchmarks.medagentbench.oracle import asked, text_reply
from tests.medagent.benchmarks.medagentbench.runs import episodes, results, rows, run, settled

TASKS = [f"task7_{number}" for number in range(1, 11)]


def ask(folder: Path, server: ModelServer, *args: object) -> Ran:
    """The ten tasks of task7, over this server."""
    endpoint = ("--base-url", server.url, "--timeout", 1)
    return run(folder, "--version", "v1", "--types", "task7", "--model", "m", *endpoint, *args)


def grade(folder: Path) -> dict[str, Any]:
    overall: dict[str, Any] = json.loads((folder / "v1_r1_m" / "grade.json").read_text())["overall"]
    return overall


def first_calls(fault: Fault) -> Callable[[Call], Fault | None]:
    """Strike the first call of each task, whichever comes when."""
    struck: set[str] = set()

    def strike(call: Call) -> Fault | None:
        task = asked(call.body).id
        if task in struck:
            return None
        struck.add(task)
        return fault

    return strike


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("undisturbed")
    with ModelServer(reply=text_reply) as server:
        assert ask(folder, server).code == 0
    return settled(results(folder, "v1_r1_m"))


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_that_passes_changes_nothing_but_the_time(
    tmp_path: Path, name: str, undisturbed: dict[str, Any]
) -> None:
    with ModelServer(reply=text_reply, faults=first_calls(FAULTS[name])) as server:
        ran = ask(tmp_path, server)
    assert ran.code == 0, ran.err
    assert settled(results(tmp_path, "v1_r1_m")) == undisturbed
    kept = rows(tmp_path / "v1_r1_m")
    assert [row["status"] for row in kept] == ["completed"] * 10
    assert [row["spent"]["retries"] for row in kept] == [1] * 10
    assert sum(row["spent"]["calls"] for row in kept) == len(server.calls) - 10


def test_a_burst_of_500s(tmp_path: Path, undisturbed: dict[str, Any]) -> None:
    with ModelServer(reply=text_reply, faults=[status(500)] * 17) as server:
        ran = ask(tmp_path, server, "--full")
    assert ran.code == 0, ran.err
    assert settled(results(tmp_path, "v1_r1_m")) == undisturbed
    assert sum(row["spent"]["retries"] for row in rows(tmp_path / "v1_r1_m")) == 17
    assert "17 retries" in ran.out


def test_a_retry_comes_when_the_server_said(tmp_path: Path) -> None:
    with ModelServer(reply=text_reply, faults=[status(429, retry_after=1)]) as server:
        assert ask(tmp_path, server, "--ids", "task7_1").code == 0
    assert server.calls[1].at - server.calls[0].at >= 1
    assert episodes(tmp_path / "v1_r1_m")["task7_1"]["spent"]["waited"] >= 1


class HastySettings(runs.impatient(MedAgentBenchSettings, retries=1)):
    """With calls that may take half a second."""

    @property
    def chat(self) -> ModelSettings | None:
        chat: ModelSettings | None = super().chat
        return chat and chat.model_copy(update={"timeout_s": 0.5})


def test_faults_that_stay_are_failures_of_the_model_and_owed(tmp_path: Path, undisturbed: dict[str, Any]) -> None:
    struck = dict(zip(TASKS, FAULTS.values(), strict=False))
    with ModelServer(reply=text_reply, faults=lambda call: struck.get(asked(call.body).id)) as server:
        settings = HastySettings(version="v1", types=("task7",), model="m", base_url=[server.url], results_dir=tmp_path)
        code = runs.run(MedAgentBench(), settings)
    assert code == 2
    kept = episodes(tmp_path / "v1_r1_m")
    assert Counter(row["status"] for row in kept.values()) == {"model_error": 9, "completed": 1}
    assert all("2 attempts" in kept[task]["error"] for task in struck)
    items = {item["task_id"]: item for item in results(tmp_path, "v1_r1_m")["results"]}
    assert set(items) == set(TASKS)
    assert all(items[task]["answer"] is None for task in struck)
    assert (grade(tmp_path)["right"], grade(tmp_path)["ungraded"]) == (1, 9)
    with ModelServer(reply=text_reply) as server:
        assert ask(tmp_path, server).code == 0
    assert {asked(call.body).id for call in server.calls} == set(struck)
    assert settled(results(tmp_path, "v1_r1_m")) == undisturbed


def test_ten_refused_requests_in_a_row_stop_the_run_with_the_providers_words(tmp_path: Path) -> None:
    with ModelServer(faults=lambda call: status(400, message="n must be at least 1")) as server:
        ran = ask(tmp_path, server, "--concurrency", 1)
    assert ran.code == 1
    assert "n must be at least 1" in ran.err
    assert len(server.calls) == 10
    statuses = Counter(row["status"] for row in rows(tmp_path / "v1_r1_m"))
    assert statuses == {"model_error": 9, "cancelled": 1}  # the call that stopped the run is paid for, too
    assert not (tmp_path / "v1_r1_m" / "results.json").exists()
    with ModelServer(reply=text_reply) as server:
        assert ask(tmp_path, server).code == 0
    assert {asked(call.body).id for call in server.calls} == set(TASKS)


def test_a_full_context_window_ends_the_episode_and_is_not_owed(tmp_path: Path) -> None:
    with ModelServer(
        reply=text_reply, faults=lambda call: CONTEXT_FULL if asked(call.body).id in TASKS[1:5] else None
    ) as server:
        ran = ask(tmp_path, server, "--concurrency", 1)  # the first item has an answer before others do not fit
        assert ran.code == 0, ran.err
        assert "Wrong: 4 context limit" in ran.out
        kept = episodes(tmp_path / "v1_r1_m")
        assert {kept[task]["status"] for task in TASKS[1:5]} == {"context_limit"}
        assert "8192" in kept["task7_2"]["error"]
        items = results(tmp_path, "v1_r1_m")["results"]
        assert [item["answer"] is None for item in items] == [False] + [True] * 4 + [False] * 5
        assert (grade(tmp_path)["right"], grade(tmp_path)["wrong"]) == (6, 4)
        calls = len(server.calls)
        assert "is complete" in ask(tmp_path, server).err
        assert len(server.calls) == calls


def test_a_cost_limit_stops_new_episodes_and_a_higher_one_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undisturbed: dict[str, Any]
) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text('date = "2025-01-01"\n[models.m]\ninput = 1000.0\noutput = 2000.0\n')
    monkeypatch.setenv("MEDAGENT_PRICES", str(prices))
    with ModelServer(reply=text_reply) as server:
        ran = ask(tmp_path, server, "--concurrency", 1, "--max-cost", 0.01)
        assert ran.code == 2
        assert "--max-cost 0.01 is reached" in ran.err
        kept = rows(tmp_path / "v1_r1_m")
        assert len(kept) == 1
        spent = kept[0]["spent"]
        assert spent["cost"] == pytest.approx(spent["prompt"] / 1000 + spent["completion"] / 500)
        assert ask(tmp_path, server, "--max-cost", 10_000).code == 0
    assert settled(results(tmp_path, "v1_r1_m")) == undisturbed


def test_an_unknown_price_is_a_dash(tmp_path: Path) -> None:
    with ModelServer(reply=text_reply) as server:
        ran = ask(tmp_path, server)
    assert ran.code == 0
    assert "Cost unknown, " in ran.out


def test_an_episode_stays_with_one_replica(tmp_path: Path, undisturbed: dict[str, Any]) -> None:
    with ModelServer(reply=text_reply) as first, ModelServer(reply=text_reply) as second:
        assert ask(tmp_path, first, "--base-url", second.url).code == 0
    asked_of_one, asked_of_other = ({asked(call.body).id for call in server.calls} for server in (first, second))
    assert asked_of_one | asked_of_other == set(TASKS)
    assert asked_of_one.isdisjoint(asked_of_other)
    assert asked_of_one
    assert asked_of_other
    assert settled(results(tmp_path, "v1_r1_m")) == undisturbed
