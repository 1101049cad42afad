"""What the run engine adds to the model's own time: wall time, memory and CPU over a model server that takes 100 ms.

Run: `python -m benchmarks.engine`. The server (the reference agent behind an OpenAI-compatible endpoint) and each
measured run have a process of their own, so that the figures are the engine's alone: HTTP client, session, embedded
FHIR server, journal; without starting Python, and without the grades and the table at the end. Times are the best of
three. The ideal time is that of an engine that costs nothing: each lane goes through its episodes at 100 ms a call.
"""

from __future__ import annotations

import asyncio
import heapq
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path

from medagent.benchmarks.medagentbench.episode import EpisodeRow
from medagent.benchmarks.medagentbench.plan import make_plan
from medagent.benchmarks.medagentbench.settings import MedAgentBenchSettings
from medagent.engine.journal import Journal
from medagent.engine.local import LocalExecutor
from medagent.engine.progress import Progress
from medagent.engine.units import Watch, run_units
from tests.loopback import ModelServer
from tests.medagent.benchmarks.medagentbench.oracle import text_reply

LATENCY_S = 0.1
processes = multiprocessing.get_context("spawn")


@dataclass(frozen=True, slots=True)
class Figures:
    """One measured run; `calls` are each episode's model calls in the order in which episodes were begun."""

    seconds: float
    cpu: float
    peak_bytes: int
    calls: list[int]


def serve(pipe: Connection) -> None:
    """Serve until told to end."""
    with ModelServer(reply=text_reply, latency=LATENCY_S) as server:
        pipe.send(server.url)
        pipe.recv()


@contextmanager
def model_server() -> Iterator[str]:
    """The base URL of a model server in a process of its own."""
    here, there = processes.Pipe()
    process = processes.Process(target=serve, args=(there,))
    process.start()
    yield here.recv()
    here.send(None)
    process.join()


def run(pipe: Connection, url: str, episodes: int, concurrency: int) -> None:
    """Run so many episodes of the 300 tasks and send the figures."""
    import_module("medagent.models.openai")  # half a second, which is not the engine's
    settings = MedAgentBenchSettings(model="m", base_url=[url], trials=-(-episodes // 300), concurrency=concurrency)
    stage = asyncio.run(make_plan(settings, print)).stages[0]
    units = stage.units()[:episodes]
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(Path(folder) / "episodes.jsonl", EpisodeRow)
        watch = Watch(Progress(quiet=True))
        work = run_units(stage.job, units, journal, LocalExecutor(concurrency), watch)
        start, cpu = time.monotonic(), time.process_time()
        summary = asyncio.run(work)
        seconds, cpu = time.monotonic() - start, time.process_time() - cpu
        assert summary.done == episodes
        calls = {row.unit: row.spent.calls for row in journal.rows()}
        journal.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    pipe.send(Figures(seconds, cpu, peak, [calls[unit.key] for unit in units]))


def measured(url: str, episodes: int, concurrency: int) -> Figures:
    """The figures of a run in a process of its own."""
    here, there = processes.Pipe()
    process = processes.Process(target=run, args=(there, url, episodes, concurrency))
    process.start()
    figures: Figures = here.recv()
    process.join()
    return figures


def ideal(calls: list[int], concurrency: int) -> float:
    """Seconds of an engine that costs nothing: each lane takes the next episode when its last one ends."""
    lanes = [0.0] * concurrency
    for count in calls:
        heapq.heapreplace(lanes, lanes[0] + count * LATENCY_S)
    return max(lanes)


def main() -> None:
    with model_server() as url:
        small = min((measured(url, 300, 64) for _ in range(3)), key=lambda figures: figures.seconds)
        large = measured(url, 2000, 2000)
    best = ideal(small.calls, 64)
    print(f"300 tasks at concurrency 64: {small.seconds:.2f} s, {small.seconds / best:.2f} × the ideal {best:.2f} s")
    print(f"CPU an episode: {small.cpu / 300 * 1000:.1f} ms ({sum(small.calls) / 300:.1f} model calls)")
    print(f"2,000 episodes at once: peak {large.peak_bytes / 1e6:.0f} MB, {large.seconds:.1f} s")


if __name__ == "__main__":
    main()
