"""A run that is killed, interrupted, or started twice: nothing finished is lost, and nothing finished is paid twice."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from medagent.engine.journal import last_rows
from medagent.fhir_episodes.episode import EpisodeRow
from tests.loopback import ModelServer, stall
from tests.medagent.benchmarks.medagentbench.oracle import asked, text_reply
from tests.medagent.benchmarks.medagentbench.runs import episodes, results, rows, run, settled
from tests.starts import start

CONCURRENCY = 8


def words(folder: Path, server: ModelServer, *args: object) -> list[str]:
    """What follows `medagent run`."""
    endpoint = ["--model", "m", "--base-url", server.url, "--concurrency", CONCURRENCY]
    return ["--quiet", "--results-dir", str(folder), *map(str, endpoint), *map(str, args)]


def wait_until(true: Callable[[], bool], running: Callable[[], bool]) -> None:
    """Wait for something that a running process is about to do."""
    give_up = time.monotonic() + 60
    while not true():
        assert running()
        assert time.monotonic() < give_up
        time.sleep(0.001)


def finished(path: Path) -> set[str]:
    """The tasks whose rows are on disk; a torn last line is none."""
    journal = path / "episodes.jsonl"
    return {row.task_id for row in last_rows(journal, EpisodeRow) if not row.owed} if journal.exists() else set()


@pytest.mark.parametrize(("kills", "tasks"), [(4, 60), pytest.param(25, 300, marks=pytest.mark.long)])
def test_kills_change_nothing_and_no_finished_episode_is_paid_twice(tmp_path: Path, kills: int, tasks: int) -> None:
    rng = random.Random(20)
    path = tmp_path / "v2_r1_m"
    with ModelServer(reply=text_reply, latency=0.005) as server:
        assert run(tmp_path / "undisturbed", "--model", "m", "--base-url", server.url, "--limit", tasks).code == 0
        paid = len(server.calls)
        kept: set[str] = set()
        for _ in range(kills):
            before = len(server.calls)
            moment = before + rng.randint(0, paid * 4 // 3 // kills)  # all of them stay within the run
            process = start("run", *words(tmp_path, server, "--limit", tasks))
            wait_until(lambda: len(server.calls) >= moment, lambda: process.poll() is None)  # noqa: B023  # in this round only
            time.sleep(rng.uniform(0, 0.01))
            process.kill()
            assert process.ended().code == -signal.SIGKILL
            begun = {asked(call.body).id for call in server.calls[before:]}
            assert begun.isdisjoint(kept)
            done = finished(path)
            assert kept <= done
            assert len(begun - done) <= CONCURRENCY
            kept = done
        before = len(server.calls)
        assert run(tmp_path, "--model", "m", "--base-url", server.url, "--limit", tasks).code == 0
    assert {asked(call.body).id for call in server.calls[before:]}.isdisjoint(kept)
    assert settled(results(tmp_path, "v2_r1_m")) == settled(results(tmp_path / "undisturbed", "v2_r1_m"))
    assert Counter(row["task_id"] for row in rows(path)).most_common(1)[0][1] == 1


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (signal.SIGINT, 130),
        pytest.param(signal.SIGTERM, 143, marks=pytest.mark.long),
        pytest.param(signal.SIGHUP, 129, marks=pytest.mark.long),
    ],
)
def test_a_signal_keeps_what_is_finished_and_records_what_was_under_way(
    tmp_path: Path, sent: signal.Signals, code: int
) -> None:
    stalled = {f"task7_{number}" for number in (2, 3, 5, 8)}
    path = tmp_path / "v1_r1_m"
    args = ("--version", "v1", "--types", "task7")
    with ModelServer(
        reply=text_reply, faults=lambda call: stall() if asked(call.body).id in stalled else None
    ) as server:
        process = start("run", *words(tmp_path, server, *args))
        wait_until(lambda: len(finished(path)) == 6, lambda: process.poll() is None)
        second = run(tmp_path, *args, "--model", "m", "--base-url", server.url)
        assert second.code == 1
        assert f"process {process.pid} is writing to this folder" in second.err
        process.send_signal(sent)
        ended, _, err = process.ended()
    assert ended == code
    assert "Finished units are saved. Continue: medagent run --version v1" in err
    assert "Traceback" not in err
    assert {task for task, row in episodes(path).items() if row["status"] == "cancelled"} == stalled
    assert len(rows(path)) == 10
    with ModelServer(reply=text_reply) as server:
        assert run(tmp_path, *args, "--model", "m", "--base-url", server.url).code == 0
    assert {asked(call.body).id for call in server.calls} == stalled


def test_a_lower_limit_after_an_interrupted_run_scores_its_own_items(tmp_path: Path) -> None:
    path = tmp_path / "v2_r1_m"
    with ModelServer(reply=text_reply, faults=lambda call: stall() if call.number >= 24 else None) as server:
        process = start("run", *words(tmp_path, server, "--limit", 100))
        wait_until(lambda: len(server.calls) >= 24 + CONCURRENCY, lambda: process.poll() is None)
        process.send_signal(signal.SIGINT)
        assert process.ended().code == 130
    with ModelServer(reply=text_reply) as server:
        ran = run(tmp_path, "--model", "m", "--base-url", server.url, "--limit", 20)
        begun = {asked(call.body).id for call in server.calls}
    assert ran.code == 0, ran.err
    assert 0 < len(begun) < 20  # the others were finished before the signal
    assert results(tmp_path, path.name)["total_tasks"] == 20
    assert "Score 100.0% (20 of 20; 19 patients)" in ran.out
