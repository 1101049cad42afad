"""Finds benchmarks: by the entry-point group `medagent.benchmarks`, or by an import path (`my_bench.py:Sums`)."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from medagent.core import plugins
from medagent.core.errors import UserError
from medagent.engine.benchmark import Benchmark
from medagent.engine.folder import benchmark_of

GROUP = "medagent.benchmarks"
DEFAULT = "medagentbench"
INTERNAL = {"judge-check": "medagent.benchmarks.judge_check:JudgeCheck"}
"""Benchmarks that other commands run, by the names that their folders have."""


def names() -> list[str]:
    """The names of all benchmarks that are installed, the default one first."""
    found = sorted({point.name for point in entry_points(group=GROUP)})
    return sorted(found, key=lambda name: name != DEFAULT)


def find(name: str) -> Benchmark[Any, Any]:
    """The benchmark of a name or an import path. Raises UserError, naming what there is."""
    plugin = plugins.find(INTERNAL.get(name, name), GROUP)
    if plugin is None:
        raise UserError(f"unknown benchmark {name!r}; known: {', '.join(names())}")
    found = plugin.load()
    benchmark = found() if isinstance(found, type) else found
    if not isinstance(benchmark, Benchmark):
        raise UserError(f"{plugin.path}: is not a subclass of medagent.Benchmark")
    if name not in (benchmark.name, *INTERNAL):
        benchmark.reference = name
    return benchmark


def of_folder(folder: Path) -> Benchmark[Any, Any]:
    """The benchmark that made a run's folder. Raises UserError where that is not to be told or it is not installed."""
    return find(benchmark_of(folder))
