"""Finds benchmarks by name (entry points of the group `medagent.benchmarks`) or import path (`my_bench.py:Sums`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from medagent.core import plugins
from medagent.core.errors import UserError
from medagent.core.suggest import did_you_mean
from medagent.engine.benchmark import Benchmark
from medagent.engine.folder import read_run

if TYPE_CHECKING:
    from medagent.fhir_episodes.benchmark import FhirBenchmark

GROUP = "medagent.benchmarks"
UNLISTED = "medagent.unlisted_benchmarks"
"""The entry points of benchmarks with their own command instead of `medagent run`. Their runs can be read too."""
DEFAULT = "medagentbench"


def names() -> list[str]:
    """The names of all installed benchmarks, the default one first."""
    installed = sorted(plugins.entry_points(GROUP))
    return sorted(installed, key=lambda name: name != DEFAULT)


def find(reference: str | type[Benchmark[Any, Any]], group: str = GROUP) -> Benchmark[Any, Any]:
    """The benchmark of a name, an import path, a file of task types or a class. Raises UserError, which lists the known
    names.
    """
    name = reference if isinstance(reference, str) else plugins.given(reference)
    plugin = plugins.whole_file(name) or plugins.find(name, group)
    if plugin is None:
        if name.endswith(".py:"):
            raise UserError(
                f"{name} lacks the name of a class after the colon; for the whole file, leave the colon out"
            )
        raise UserError(f"unknown benchmark {name!r}; known: {', '.join(names())}.{did_you_mean(name, names())}")
    loaded = plugin.load()
    made = loaded() if isinstance(loaded, type) else loaded
    benchmark: Benchmark[Any, Any] = made if isinstance(made, Benchmark) else _of_types(plugin)
    if name != benchmark.name:
        benchmark.reference = name
    return benchmark


def _of_types(plugin: plugins.Plugin) -> Benchmark[Any, Any]:
    """The benchmark of a file of task types. Raises UserError if the plug-in does not define any."""
    from medagent.benchmarks.ward.benchmark import ward_of

    return ward_of(plugin)


def fhir_names() -> list[str]:
    """The names of benchmarks with episodes on a FHIR server. To find out, all benchmarks are imported."""
    from medagent.fhir_episodes.benchmark import FhirBenchmark

    return [name for name in names() if isinstance(find(name), FhirBenchmark)]


def find_fhir(reference: str | type[Benchmark[Any, Any]]) -> FhirBenchmark[Any]:
    """As `find`, but raises UserError if the benchmark does not run episodes on a FHIR server."""
    from medagent.fhir_episodes.benchmark import FhirBenchmark

    benchmark = find(reference)
    if not isinstance(benchmark, FhirBenchmark):
        others = ", ".join(fhir_names())
        raise UserError(f"{benchmark.name}: does not run episodes on a FHIR server; name one of {others}")
    return benchmark


def of_folder(folder: Path, code: str | type[Benchmark[Any, Any]] | None = None) -> Benchmark[Any, Any]:
    """The benchmark that reads a run's folder: the installed one that `run.json` names, or `code`.

    `code` (an import path or a class) is used if its name is the one in `run.json`, or if that benchmark is not
    installed. A folder is untrusted input, so code that it mentions is not imported. Raises UserError if the benchmark
    is not installed.
    """
    name = str(read_run(folder)["benchmark"])
    own = find(code) if code is not None else None
    group = next((group for group in (GROUP, UNLISTED) if name in plugins.entry_points(group)), None)
    if own is not None and (name == own.name or group is None):
        return own
    if group is not None:
        return find(name, group)
    if plugins.is_import_path(name) or plugins.is_whole_file(name):
        raise UserError(f"{folder}: run.json is of the benchmark {name}; to read it with that code: --benchmark {name}")
    raise UserError(
        f"{folder}: run.json is of the benchmark {name!r}, which is not installed; known: {', '.join(names())}"
    )
