"""Measures what the run engine adds to the model's own time: wall time, memory and CPU over a model server of 100 ms.

Run: `python -m benchmarks.engine`. The server (the reference agent behind an OpenAI-compatible endpoint) and each
measured run are separate processes, so that the numbers are only the engine's: HTTP client, session, embedded FHIR
server, journal; without starting Python, and without the grades and the table at the end. Times are the best of three.
The ideal time is an engine's without cost: each lane does its episodes at 100 ms per call. The same episodes are also
measured with other engines (`engine_peers.py`).

`python -m benchmarks.engine --trials N` measures N trials of the 300 tasks by the reference agent instead, as whole
processes: the run; then `show` (which opens the run), the run's command again, `grade` and `report` on the finished
run; and last the CPU of the process that drives a run. With `--varied`, the requests differ by trial, so that no two
rows are equal; the limits are for 100 of these trials. `--folder` keeps the run, and a finished one is measured again
without the run.

With Python's default thresholds, garbage collection took a quarter of a run's CPU (`few_collections` in
`medagent/engine/folder.py`).
"""

from __future__ import annotations

import argparse
import asyncio
import heapq
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.engine_peers import PEERS
from benchmarks.process import medagent
from benchmarks.table import machine, row
from medagent.benchmarks.medagentbench.benchmark import MedAgentBench
from medagent.benchmarks.medagentbench.settings import MedAgentBenchSettings
from medagent.engine.folder import few_collections
from medagent.engine.journal import Journal
from medagent.engine.local import LocalExecutor
from medagent.engine.progress import Progress
from medagent.engine.run import Watch, executor, run_units
from medagent.fhir_episodes.episode import EpisodeRow
from tests.loopback import ModelServer
from tests.medagent.benchmarks.medagentbench.oracle import text_reply

LATENCY_S = 0.1
Reply = str | Callable[[dict[str, Any]], str]
processes = multiprocessing.get_context("spawn")


@dataclass(frozen=True, slots=True)
class Figures:
    """One measured run; `calls` are each episode's model calls in the order in which episodes were begun."""

    seconds: float
    cpu: float
    peak_bytes: int
    calls: list[int]


def serve(pipe: Connection, reply: Reply, latency: float) -> None:
    """Serve until told to end."""
    with ModelServer(reply=reply, latency=latency) as server:
        pipe.send(server.url)
        pipe.recv()


@contextmanager
def model_server(reply: Reply, latency: float) -> Iterator[str]:
    """The base URL of a model server in a process of its own."""
    here, there = processes.Pipe()
    process = processes.Process(target=serve, args=(there, reply, latency))
    process.start()
    yield here.recv()
    here.send(None)
    process.join()


def run(pipe: Connection, url: str, episodes: int, concurrency: int) -> None:
    """Run episodes of the 300 tasks and send the numbers."""
    import_module("medagent.models.endpoint")  # half a second, which is not the engine's
    settings = MedAgentBenchSettings(model="m", base_url=[url], trials=-(-episodes // 300), concurrency=concurrency)
    stage = asyncio.run(MedAgentBench().plan(settings, print)).stages[0]
    units = stage.units()[:episodes]
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(Path(folder) / "episodes.jsonl", EpisodeRow)
        work = run_units(stage.job, units, journal, LocalExecutor(concurrency), Watch(Progress(quiet=True)))
        start, cpu = time.monotonic(), time.process_time()
        with few_collections():
            summary = asyncio.run(work)
        seconds, cpu = time.monotonic() - start, time.process_time() - cpu
        assert summary.done == episodes
        calls = {row.unit: row.spent.calls for row in journal.rows()}
        journal.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    pipe.send(Figures(seconds, cpu, peak, [calls[unit.key] for unit in units]))


def measured(url: str, episodes: int, concurrency: int) -> Figures:
    """The numbers of a run in a process of its own."""
    here, there = processes.Pipe()
    process = processes.Process(target=run, args=(there, url, episodes, concurrency))
    process.start()
    figures: Figures = here.recv()
    process.join()
    return figures


def run_peer(pipe: Connection, url: str, name: str) -> None:
    """Run the 300 tasks by another engine and send the CPU milliseconds an episode."""
    settings = MedAgentBenchSettings(model="m", base_url=[url], concurrency=64)
    stage: Any = asyncio.run(MedAgentBench().plan(settings, print)).stages[0]
    units = stage.units()
    import_module(name.partition(" ")[0])  # seconds, which are not the engine's
    start = time.process_time()
    asyncio.run(PEERS[name](stage.job, units, url))
    pipe.send((time.process_time() - start) / len(units) * 1000)


def peer(url: str, name: str) -> float:
    """CPU milliseconds an episode of another engine, in a process of its own."""
    here, there = processes.Pipe()
    process = processes.Process(target=run_peer, args=(there, url, name))
    process.start()
    figure: float = here.recv()
    process.join()
    return figure


def ideal(calls: list[int], concurrency: int) -> float:
    """Seconds of an engine that costs nothing: each lane takes the next episode when its last one ends."""
    lanes = [0.0] * concurrency
    for count in calls:
        heapq.heapreplace(lanes, lanes[0] + count * LATENCY_S)
    return max(lanes)


def drive(pipe: Connection, workers: int | None, count: int) -> None:
    """Run `count` trials of the 300 tasks by the reference agent, and send this process's CPU seconds."""
    settings = MedAgentBenchSettings(agent="reference", trials=count, concurrency=64, workers=workers)
    stage = asyncio.run(MedAgentBench().plan(settings, print)).stages[0]
    units = stage.units()
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(Path(folder) / "episodes.jsonl", EpisodeRow)
        work = run_units(stage.job, units, journal, executor(settings), Watch(Progress(quiet=True)))
        start = time.process_time()
        with few_collections():
            summary = asyncio.run(work)
        pipe.send(time.process_time() - start)
        assert summary.done == len(units)
        journal.close()


def driven(workers: int | None, count: int) -> float:
    """CPU seconds of `drive` in a separate process."""
    here, there = processes.Pipe()
    process = processes.Process(target=drive, args=(there, workers, count))
    process.start()
    figure: float = here.recv()
    process.join()
    return figure


def trials(count: int, place: Path, *, varied: bool) -> None:
    """Print what a run of N trials into a folder costs, unless it is there, and commands on the finished run."""
    agent, name = ("benchmarks.varied_agent:VariedAgent", "VariedAgent") if varied else ("reference", "reference")
    command = ("run", "--version", "v2", "--round", "r2", "--agent", agent, "--quiet")
    run = (*command, "--trials", str(count), "--results-dir", str(place))
    folder, what = place / f"v2_r2_{name}", f"{count} trials of 300 tasks{', rows that differ' if varied else ''}"
    medagent("ehr", "build")
    is_finished = (folder / "report.json").is_file()
    for title, limit, words in (
        *([] if is_finished else [("the run", "", run)]),
        ("open", "≤ 5", ("show", str(folder))),
        ("the same command again", "", run),
        ("grade", "≤ 40", ("grade", str(folder))),
        ("report", "≤ 60", ("report", str(folder), "-o", str(place / "report.html"))),
    ):
        cost = medagent(*words)
        row(f"{what}, {title}: CPU", limit if varied else "", cost.cpu, "s")
        row(f"{what}, {title}: wall", "", cost.seconds, "s")
        row(f"{what}, {title}: peak memory", "≤ 500" if varied else "", cost.peak, "MB")
    row(f"{what}, report: size", "", (place / "report.html").stat().st_size / 1e6, "MB")


def drivers(count: int) -> None:
    """Print the CPU of the process that drives a run of N trials by the reference agent."""
    for workers, target in ((None, ""), (2, "≤ 10")):
        single, many = driven(workers, 1), driven(workers, count)  # starting the workers does not belong to an episode
        where = f"--workers {workers}" if workers else "one process"
        row(
            f"an episode by the reference agent, {where}: the driver's CPU",
            target,
            (many - single) / (count - 1) / 0.3,
            "ms",
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, help="Measure N trials by the reference agent.")
    parser.add_argument("--varied", action="store_true", help="By an agent whose requests differ by trial.")
    parser.add_argument("--folder", type=Path, help="Where the run is, or is made and stays. Then no drivers.")
    arguments = parser.parse_args()
    machine()
    if arguments.trials is None:
        episodes()
    elif arguments.folder is not None:
        trials(arguments.trials, arguments.folder, varied=arguments.varied)
    else:
        with tempfile.TemporaryDirectory() as folder:
            trials(arguments.trials, Path(folder), varied=arguments.varied)
        drivers(arguments.trials)


def episodes() -> None:
    """Print what episodes cost over a model server that takes its time, here and by other engines."""
    with model_server(text_reply, LATENCY_S) as url:
        small = min((measured(url, 300, 64) for _ in range(3)), key=lambda figures: figures.seconds)
        large = measured(url, 2000, 2000)
        peers = {name: min(peer(url, name) for _ in range(3)) for name in PEERS}
    best = ideal(small.calls, 64)
    row("300 tasks at concurrency 64: wall, times the ideal", "", small.seconds / best, f"× {best:.2f} s")
    row("an episode: CPU", "≤ 5", small.cpu / 300 * 1000, f"ms ({sum(small.calls) / 300:.1f} model calls)")
    for name, figure in peers.items():
        row(f"an episode by {name}: CPU", "", figure, "ms")
    row("2,000 episodes at once: peak memory", "", large.peak_bytes / 1e6, "MB")
    row("2,000 episodes at once: wall", "", large.seconds, "s")


if __name__ == "__main__":
    main()
