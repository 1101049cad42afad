"""Runs on a Dask cluster: the same results as in one process, also when a worker is lost in the middle."""

from __future__ import annotations

import multiprocessing
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command import medagent
from tests.loopback import Call, Fault, ModelServer, stall, status
from tests.medagent.benchmarks.medagentbench.oracle import asked, text_reply
from tests.medagent.benchmarks.medagentbench.runs import results, rows, run, settled


@pytest.fixture
def scheduler() -> Iterator[str]:
    """The address of a cluster that somebody else started; its one worker has two threads of this process."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, protocol="tcp", dashboard_address="127.0.0.1:0"
    ) as cluster:
        yield cluster.scheduler_address


def test_a_worker_killed_in_mid_run_costs_no_episode(tmp_path: Path) -> None:
    path = tmp_path / "v1_r1_reference"
    kept_at_the_kill: list[int] = []

    def kill_a_worker() -> None:
        journal = path / "episodes.jsonl"
        while not (journal.exists() and journal.read_bytes().count(b"\n") >= 20):
            time.sleep(0.01)
        multiprocessing.active_children()[0].kill()
        kept_at_the_kill.append(len(journal.read_bytes().splitlines()))

    killer = threading.Thread(target=kill_a_worker, daemon=True)
    killer.start()
    ran = run(tmp_path, "--version", "v1", "--agent", "reference", "--workers", 2)
    assert ran.code == 0, ran.err
    killer.join()
    assert kept_at_the_kill[0] < 100
    kept = rows(path)
    assert Counter(row["status"] for row in kept) == {"completed": 100}
    assert len({row["unit"] for row in kept}) == 100
    assert run(tmp_path / "local", "--version", "v1", "--agent", "reference").code == 0
    assert settled(results(tmp_path, path.name)) == settled(results(tmp_path / "local", path.name))


def test_a_cluster_of_somebody_elses_is_left_as_it_was(tmp_path: Path, scheduler: str) -> None:
    with ModelServer(reply=text_reply) as server:
        args = ("--version", "v1", "--types", "task7", "--model", "m", "--base-url", server.url)
        ran = run(tmp_path, *args, "--cluster", scheduler)
        assert ran.code == 0, ran.err
        assert "medagent-units" not in {thread.name for thread in threading.enumerate()}
        assert run(tmp_path / "local", *args).code == 0
    assert settled(results(tmp_path, "v1_r1_m")) == settled(results(tmp_path / "local", "v1_r1_m"))


def test_a_refused_key_stops_the_run_and_keeps_what_was_under_way_as_cancelled(tmp_path: Path, scheduler: str) -> None:
    under_way: set[str] = set()

    def faults(call: Call) -> Fault:
        under_way.add(asked(call.body).id)
        if asked(call.body).id == "task7_1":
            return stall()
        return status(401, message="Incorrect API key") if "task7_1" in under_way else status(429, retry_after=0)

    with ModelServer(faults=faults) as server:
        args = ("--ids", "task7_1,task7_2", "--model", "m", "--base-url", server.url)
        ran = run(tmp_path, *args, "--cluster", scheduler)
    assert ran.code == 1
    assert "Incorrect API key" in ran.err
    assert "Traceback" not in ran.err
    left = {row["task_id"]: row["status"] for row in rows(tmp_path / "v2_r1_m")}
    assert left == {"task7_1": "cancelled", "task7_2": "cancelled"}
    assert not (tmp_path / "v2_r1_m" / "results.json").exists()


def test_a_refused_model_is_one_clear_line_and_what_goes_on_at_the_endpoints_is_said(
    tmp_path: Path, scheduler: str
) -> None:
    def faults(call: Call) -> Fault | None:
        if call.number < 2:
            return status(429, retry_after=0)
        return status(400, message="use max_completion_tokens instead") if "max_tokens" in call.body else None

    words = ("--workers", 2, "--limit", 8, "--model", "m")
    with ModelServer(reply=text_reply, faults=faults) as server:
        ran = medagent("run", *words, "--base-url", server.url, "--max-tokens", 64, "--results-dir", tmp_path)
        assert ran.code == 0, ran.err
        assert ran.err.count("m takes max_completion_tokens") == 1
        assert re.search(r" [1-9] retries, ", ran.err)
    with ModelServer(faults=lambda _: status(404, message="no such model")) as server:
        refused = run(tmp_path, "--model", "m", "--base-url", server.url, "--round", "r2", "--cluster", scheduler)
        assert refused.code == 1
        assert "no such model" in refused.err.splitlines()[-1]
        assert "Traceback" not in refused.err


@pytest.mark.parametrize(
    ("value", "problem"),
    [("2", "--wait-for-workers needs --cluster"), ("0", "write it as N or N,SECONDS"), ("2;3", "write it as N or N,S")],
)
def test_workers_to_wait_for_are_a_clusters(tmp_path: Path, value: str, problem: str) -> None:
    ran = run(tmp_path, "--agent", "nop", "--wait-for-workers", value)
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert problem in ran.err


def test_a_cluster_that_is_not_there(tmp_path: Path) -> None:
    ran = run(tmp_path, "--agent", "nop", "--cluster", "tcp://127.0.0.1:9")
    assert ran.code == 1
    assert ran.err.count("medagent: ") == 1
    assert "--cluster tcp://127.0.0.1:9: cannot be reached" in ran.err


def test_a_password_that_dask_does_not_take_is_not_repeated(tmp_path: Path) -> None:
    ran = run(tmp_path, "--agent", "nop", "--cluster", "tcp://me:hunter2-0123456789@127.0.0.1:9")
    assert ran.code == 1
    assert ran.err.count("medagent: ") == 1
    assert "--cluster tcp://***@127.0.0.1:9: cannot be reached: invalid address" in ran.err
    assert "hunter2" not in ran.err
