"""A run that is killed, interrupted, or started twice: nothing finished is lost, and nothing finished is paid twice."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from medagent.medagentbench.episode import EpisodeRow
from medagent.run.journal import last_rows
from tests.loopback import ModelServer, stall
from tests.medagent.medagentbench.oracle import asked, text_reply
from tests.medagent.medagentbench.runs import episodes, results, rows, run, settled

KILLS = 20
CONCURRENCY = 8


def start(folder: Path, server: ModelServer, *args: object) -> subprocess.Popen[str]:
    """`medagent run` in a process of its own."""
    words = ["--results-dir", folder, "--model", "m", "--base-url", server.url, "--concurrency", CONCURRENCY, *args]
    return subprocess.Popen(
        [sys.executable, "-m", "medagent", "run", "--quiet", *map(str, words)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_until(true: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Wait for something that the process is about to do."""
    give_up = time.monotonic() + 60
    while not true():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < give_up
        time.sleep(0.001)


def finished(path: Path) -> set[str]:
    """The tasks whose rows are on disk; a torn last line is none."""
    journal = path / "episodes.jsonl"
    return {row.task_id for row in last_rows(journal, EpisodeRow) if not row.owed} if journal.exists() else set()


def test_twenty_kills_change_nothing_and_no_finished_episode_is_paid_twice(tmp_path: Path) -> None:
    dice = random.Random(20)
    path = tmp_path / "v2_r1_m"
    with ModelServer(reply=text_reply, latency=0.005) as server:
        assert run(tmp_path / "undisturbed", "--model", "m", "--base-url", server.url).code == 0
        paid = len(server.calls)
        for _ in range(KILLS):
            kept, before = finished(path), len(server.calls)
            moment = before + dice.randint(0, paid // (KILLS // 2))
            process = start(tmp_path, server)
            wait_until(lambda: len(server.calls) >= moment, process)  # noqa: B023  # called in this round only
            time.sleep(dice.uniform(0, 0.01))
            process.kill()
            process.communicate()
            assert process.returncode == -signal.SIGKILL
            begun = {asked(call.body).id for call in server.calls[before:]}
            assert begun.isdisjoint(kept)
            assert len(begun - finished(path)) <= CONCURRENCY
            assert kept <= finished(path)
        kept, before = finished(path), len(server.calls)
        last = start(tmp_path, server)
        _, err = last.communicate()
        assert last.returncode == 0, err
    assert {asked(call.body).id for call in server.calls[before:]}.isdisjoint(kept)
    assert settled(results(tmp_path, "v2_r1_m")) == settled(results(tmp_path / "undisturbed", "v2_r1_m"))
    assert Counter(row["task_id"] for row in rows(path)).most_common(1)[0][1] == 1


def test_ctrl_c_keeps_what_is_finished_and_records_what_was_under_way(tmp_path: Path) -> None:
    stalled = {f"task7_{number}" for number in (2, 3, 5, 8)}
    path = tmp_path / "v1_r1_m"
    args = ("--version", "v1", "--tasks", "task7")
    with ModelServer(
        reply=text_reply, faults=lambda call: stall() if asked(call.body).id in stalled else None
    ) as server:
        process = start(tmp_path, server, *args)
        wait_until(lambda: (path / "episodes.jsonl").exists() and len(finished(path)) == 6, process)
        second = run(tmp_path, *args, "--model", "m", "--base-url", server.url)
        assert second.code == 1
        assert f"process {process.pid} is running into this folder" in second.err
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    assert process.returncode == 130
    assert "Finished episodes are kept; the same command continues." in err
    assert "Traceback" not in err
    assert {task for task, row in episodes(path).items() if row["status"] == "cancelled"} == stalled
    assert len(rows(path)) == 10
    with ModelServer(reply=text_reply) as server:
        assert run(tmp_path, *args, "--model", "m", "--base-url", server.url).code == 0
    assert {asked(call.body).id for call in server.calls} == stalled
