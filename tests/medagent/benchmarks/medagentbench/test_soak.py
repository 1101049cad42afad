"""Five thousand episodes over an endpoint that fails one call in ten."""

from __future__ import annotations

import json
import multiprocessing
import random
from collections import Counter
from pathlib import Path

import psutil
import pytest

from medagent.engine.journal import last_rows
from medagent.fhir_episodes.episode import EpisodeRow
from tests.loopback import Call, Fault, ModelServer, status
from tests.medagent.benchmarks.medagentbench.faults import CONTEXT_FULL, FAULTS
from tests.medagent.benchmarks.medagentbench.oracle import text_reply
from tests.medagent.benchmarks.medagentbench.runs import run_in_child

TASKS, TRIALS = 250, 20
EPISODES = TASKS * TRIALS
KEPT_BYTES = 8000
"""What a finished episode may keep in memory: its score and the place of its row. Its row alone has 26 kB."""
SETTLED = 1000
"""The number of calls after which memory is measured."""


def carry_out(folder: Path, server: ModelServer) -> multiprocessing.process.BaseProcess:
    """Start the run in a process of its own."""
    words = f"--limit {TASKS} --trials {TRIALS} --concurrency 64 --timeout 1 --quiet --model m".split()
    words += ["--base-url", server.url, "--results-dir", str(folder)]
    process = multiprocessing.get_context("spawn").Process(target=run_in_child, args=(words,))
    process.start()
    return process


def statuses(folder: Path) -> Counter[str]:
    """How many episodes ended how."""
    return Counter(row.status for row in last_rows(folder / "v2_r1_m" / "episodes.jsonl", EpisodeRow))


@pytest.mark.long
def test_every_episode_is_accounted_for_and_memory_stays_flat(tmp_path: Path) -> None:
    rng = random.Random(6)
    kinds = [*FAULTS.values(), CONTEXT_FULL, status(400)]
    memory: list[int] = []
    seen = 0

    def strike(call: Call) -> Fault | None:
        nonlocal seen
        seen += 1
        server.calls.clear()  # this process, too, would grow
        if seen % 100 == 0:
            used = run.memory_info()
            memory.append(used.rss - used.shared)  # without the pages of the hospital's file, which are mapped
        return rng.choice(kinds) if rng.random() < 0.1 else None

    with ModelServer(reply=text_reply, faults=strike) as server:
        process = carry_out(tmp_path, server)
        run = psutil.Process(process.pid)
        process.join()
    assert process.exitcode == 2
    ended = statuses(tmp_path)
    assert ended.total() == EPISODES
    assert set(ended) == {"completed", "model_error", "context_limit"}
    assert max(memory) - memory[SETTLED // 100] < KEPT_BYTES * EPISODES

    with ModelServer(reply=text_reply) as server:
        process = carry_out(tmp_path, server)
        process.join()
    assert process.exitcode == 0
    whole = statuses(tmp_path)
    assert whole == {"completed": EPISODES - ended["context_limit"], "context_limit": ended["context_limit"]}
    grades = [json.loads(file.read_text())["overall"] for file in (tmp_path / "v2_r1_m").glob("grade*.json")]
    assert len(grades) == TRIALS
    assert sum(grade["right"] for grade in grades) == whole["completed"]
    assert sum(grade["wrong"] for grade in grades) == whole["context_limit"]
