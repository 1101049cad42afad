"""Agents that exit, block, ignore their cancellation or yield no text: each loses its own unit, and nothing else.

A run is a process of its own here: whether it ends, and how, is what is tested.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests import starts
from tests.command import Ran, medagent
from tests.medagent.agents.misbehaving import CASES
from tests.shared_data import SHARED, need
from tests.starts import Started

AGENTS = Path(__file__).with_name("misbehaving.py")
BAD = SHARED / "probes" / "bad_agents.py"
LIMIT_S = 500.0
"""A run that takes longer hangs."""


def command(folder: Path, agent: str, *words: object) -> list[str]:
    return [*map(str, ["run", "--agent", agent, "--results-dir", folder, "--quiet", *words])]


def start(folder: Path, agent: str, *words: object) -> Started:
    return starts.start(*command(folder, agent, *words))


def ended(process: Started) -> Ran:
    ran = process.ended(LIMIT_S)
    assert "Traceback" not in ran.err
    return ran


def run(folder: Path, agent: str, *words: object) -> Ran:
    """A run in a process of its own, or in this process if its agent is in worker processes."""
    if "--workers" not in words:
        return ended(start(folder, agent, *words))
    ran = medagent(*command(folder, agent, *words))
    assert "Traceback" not in ran.err
    return ran


def rows(folder: Path) -> dict[str, dict[str, Any]]:
    """The last row of each task."""
    file = next(folder.glob("*/episodes.jsonl"), None)
    lines = file.read_text(encoding="utf-8").splitlines() if file else []
    return {row["task_id"]: row for row in map(json.loads, lines)}


def wait_for_rows(folder: Path, count: int) -> None:
    while len(rows(folder)) < count:
        time.sleep(0.05)


def in_its_own_interpreter(folder: Path, agent: str, *words: object) -> Ran:
    """Threads that are left may keep an interpreter from its end, and not a process of multiprocessing's."""
    line = [sys.executable, "-m", "medagent", *command(folder, agent, *words)]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert "Traceback" not in done.stderr
    return Ran(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize(
    ("how", "where"), [(in_its_own_interpreter, ()), (run, ("--workers", 2))], ids=["one process", "two workers"]
)
def test_each_of_them_loses_its_own_unit_and_nothing_else(
    tmp_path: Path, how: Callable[..., Ran], where: Sequence[object]
) -> None:
    others = ["task3_1", "task3_2"]
    ids = ",".join([*CASES, *others])
    code, out, err = how(tmp_path, f"{AGENTS}:Misbehaving", "--ids", ids, "--per-item", "time=6", *where)
    left = rows(tmp_path)
    assert {task: row["status"] for task, row in left.items()} == {
        **{task: status for task, (_, status, _) in CASES.items()},
        **dict.fromkeys(others, "completed"),
    }
    for task, (_, status, words) in CASES.items():
        assert words in (left[task].get("error", "")), task
        assert len(left[task].get("error", "")) < 3_000
        assert (status == "agent_error") == ("traceback" in left[task])
    assert code == 2, err  # the model's failure is owed
    assert "Score 0.0% (0 of " in out


@pytest.mark.parametrize(
    ("agent", "where", "words"),
    [
        ("Blocks", (), "Continue: medagent"),
        ("BlocksTheLoop", (), "did not end within"),
        ("BlocksTheLoop", ("--workers", 1), "Repeat the command to continue|Continue: medagent"),
    ],
)
def test_ctrl_c_ends_a_run_whose_agent_blocks(tmp_path: Path, agent: str, where: Sequence[object], words: str) -> None:
    process = start(tmp_path, f"{AGENTS}:{agent}", "--ids", "task2_1,task2_2", "--concurrency", 1, *where)
    wait_for_rows(tmp_path, 1)
    process.send_signal(signal.SIGINT)
    code, _, err = ended(process)
    assert code == 130
    assert re.search(words, err)
    assert rows(tmp_path)["task2_1"]["status"] == "completed"


def test_a_unit_that_kills_its_worker_is_tried_alone_and_then_has_a_row(tmp_path: Path) -> None:
    ids = ",".join(f"task2_{number}" for number in range(1, 11))
    code, _, err = run(tmp_path, f"{AGENTS}:KillsItsProcess", "--ids", ids, "--workers", 2)
    left = rows(tmp_path)
    assert code == 0, err
    assert (left["task2_2"]["status"], left["task2_2"]["error"]) == ("agent_error", "its worker died")
    assert [row["status"] for row in left.values()].count("completed") == 9
    assert " died\n" in err


@pytest.mark.long
def test_a_worker_that_does_not_answer_is_replaced(tmp_path: Path) -> None:
    words = ("--ids", "task2_1,task2_2", "--workers", 1, "--concurrency", 1)
    code, _, err = run(tmp_path, f"{AGENTS}:BlocksTheLoop", *words)
    left = rows(tmp_path)
    assert code == 0, err
    assert left["task2_1"]["status"] == "completed"
    assert left["task2_2"]["status"] == "agent_error"
    assert left["task2_2"]["error"] == "its worker died"


def test_a_worker_with_too_many_units_that_do_not_end_is_replaced(tmp_path: Path) -> None:
    words = ("--ids", "task2_2,task2_3,task2_4,task2_5", "--concurrency", 1, "--per-item", "time=0.2", "--workers", 1)
    code, _, err = run(tmp_path, f"{AGENTS}:Blocks", *words)
    assert code == 0, err
    assert [row["status"] for row in rows(tmp_path).values()] == ["time_limit"] * 4
    assert "the agents of 3 units do not end" in err


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    process = start(tmp_path, f"{AGENTS}:BlocksTheLoop", "--ids", "task2_1,task2_2", "--concurrency", 1)
    wait_for_rows(tmp_path, 1)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGINT)
    code, _, err = ended(process)
    assert code in (143, 130)  # the system delivers two that wait in an order of its own
    assert "interrupted twice. Finished rows are kept" in err


def test_too_many_units_that_do_not_end_stop_the_run_and_are_named(tmp_path: Path) -> None:
    words = ("--ids", "task2_2,task2_3,task2_4,task2_5", "--concurrency", 1, "--per-item", "time=0.2")
    code, _, err = run(tmp_path, f"{AGENTS}:Blocks", *words)
    assert code == 1
    assert "the agents of 3 units do not end and cannot be stopped: task2_" in err
    assert [row["status"] for row in rows(tmp_path).values()] == ["time_limit"] * 3


def test_an_agent_that_closes_all_files_ends_the_process_and_workers_isolate_it(tmp_path: Path) -> None:
    words = ("--ids", "task2_1,task2_2,task2_3,task2_4", "--concurrency", 1)
    code, _, err = run(tmp_path, f"{AGENTS}:ClosesFiles", *words)
    before = {task: row["status"] for task, row in rows(tmp_path).items()}
    assert code == 1
    assert "task2_2" not in before
    assert set(before.values()) <= {"completed"}
    assert err.startswith("medagent: an agent closed files of this process (os.close, os.closerange): ")
    assert err.count("\n") == 1
    code, _, err = run(tmp_path, f"{AGENTS}:ClosesFiles", *words, "--workers", 1)
    assert code == 0, err
    assert Counter(row["status"] for row in rows(tmp_path).values()) == {"completed": 3, "agent_error": 1}


def test_a_run_whose_agent_fails_in_every_unit_is_no_success(tmp_path: Path) -> None:
    words = ("--ids", "task2_10,task2_12", "--results-dir", tmp_path, "--quiet")
    ran = medagent("run", "--agent", f"{AGENTS}:Misbehaving", *words)
    assert ran.code == 2
    assert "All 2 episodes ended as agent_error: yielded" in ran.out
    assert "yielded int, expected str" in medagent("show", next(tmp_path.glob("v*")), "--wrong").out


NO_FAILURE = {"LeavesThread", "Forks", "ClosesOutput", "YieldsSly", "NeverCloses"}
"""Those that answer all the same."""
FAILS_ALWAYS = {"ReturnsText": 2, "ReturnsNone": 2, "NoYield": 0}
"""Exit codes of those that fail in each unit: all are `agent_error`, or none finished its episode."""
SLOW = {"Blocks", "Spins", "Swallows", "NeverEnds"}
NAMES = [
    "ExitZero",
    "ExitSeven",
    "Interrupt",
    "Cancelled",
    "GeneratorExits",
    "Stops",
    "OwnBase",
    "Group",
    "NoText",
    "LongText",
    "Memory",
    "Recursion",
    "OsExit",
    "Blocks",
    "Spins",
    "LeavesThread",
    "Forks",
    "StopsLoop",
    "CancelsAll",
    "ClosesOutput",
    "ClosesFiles",
    "BackgroundError",
    "Swallows",
    "NeverEnds",
    "YieldsNone",
    "YieldsInt",
    "YieldsBytes",
    "YieldsList",
    "YieldsTuple",
    "YieldsDict",
    "YieldsSly",
    "YieldsHuge",
    "ReturnsText",
    "ReturnsNone",
    "NoYield",
    "NeverCloses",
]


@pytest.mark.long
@pytest.mark.parametrize("where", [(), ("--workers", 2)], ids=["one process", "two workers"])
@pytest.mark.parametrize("name", NAMES)
def test_the_probes(tmp_path: Path, name: str, where: Sequence[object]) -> None:
    process = start(tmp_path, f"{need(BAD)}:{name}", "--per-type", 1, "--per-item", "time=3", *where)
    if name == "OsExit" and not where:  # the same command continues such a run
        ended(process)
        return
    if name == "ClosesFiles" and not where:
        code, _, err = ended(process)
        assert (code, err.count("an agent closed files of this process")) == (1, 1)
        assert all(row["status"] == "completed" for row in rows(tmp_path).values())
        return
    # A worker whose files are closed ends with Dask's traceback of that.
    code, _, err = process.ended(LIMIT_S) if name == "ClosesFiles" else ended(process)
    assert code == FAILS_ALWAYS.get(name, 0), err
    statuses = [row["status"] for row in rows(tmp_path).values()]
    assert len(statuses) == 10
    expected = "time_limit" if name in SLOW else "agent_error"
    if name not in FAILS_ALWAYS:  # each process has a third episode of its own
        assert set(statuses) == ({"completed"} if name in NO_FAILURE else {"completed", expected})
        assert where or statuses.count("completed") >= 9
