"""Finds benchmarks by name (entry points of the group `medagent.benchmarks`) or import path (`my_bench.py:Sums`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from medagent.core import plugins
from medagent.core.errors import UserError
from medagent.core.suggest import did_you_mean
from medagent.engine.benchmark import Benchmark
from medagent.engine.data_sets import is_set, read_manifest
from medagent.engine.folder import read_run

if TYPE_CHECKING:
    from medagent.fhir_episodes.benchmark import FhirBenchmark

GROUP = "medagent.benchmarks"
UNLISTED = "medagent.unlisted_benchmarks"
"""The entry points of benchmarks with their own command instead of `medagent run`. Their runs can be read too."""
DEFAULT = "medagentbench"
BUNDLED = "synthetic"
"""The name of the bundled set of a benchmark."""


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
        file = f"{name}.py"
        hint = f" For the file {file}, write {file}." if Path(file).is_file() else did_you_mean(name, names())
        raise UserError(f"unknown benchmark {name!r}; known: {', '.join(names())}.{hint}")
    loaded = plugin.load()
    instance = loaded() if isinstance(loaded, type) else loaded
    benchmark: Benchmark[Any, Any] = instance if isinstance(instance, Benchmark) else _of_types(plugin)
    if name != benchmark.name:
        benchmark.reference = name
    return benchmark


def _of_types(plugin: plugins.Plugin) -> Benchmark[Any, Any]:
    """The benchmark of a file of task types. Raises UserError if the plug-in does not define any."""
    from medagent.benchmarks.custom.benchmark import custom_of

    return custom_of(plugin)


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
    named = find(code) if code is not None else None
    group = next((group for group in (GROUP, UNLISTED) if name in plugins.entry_points(group)), None)
    if named is not None and (name == named.name or group is None):
        return named
    if group is not None:
        return find(name, group)
    if plugins.is_import_path(name) or plugins.is_whole_file(name):
        raise UserError(f"{folder}: run.json is of the benchmark {name}; to read it with that code: --benchmark {name}")
    raise UserError(
        f"{folder}: run.json is of the benchmark {name!r}, which is not installed; known: {', '.join(names())}"
    )


def of_kind(kind: str | None) -> tuple[Benchmark[Any, Any], str]:
    """The benchmark of `data new --like`, and the kind of set: an installed benchmark's name stands for its sets, any
    other text is a kind of set of the default benchmark.
    """
    if kind in names():
        return find(str(kind)), ""
    return find(DEFAULT), kind or ""


def of_dataset(dataset: str, types: str | None = None) -> tuple[Benchmark[Any, Any], str]:
    """The benchmark of a data set, and the set's name there (empty: the benchmark's bundled one).

    A data set is named by its benchmark, by a name that a benchmark knows, by a file, or by a folder, whose
    `dataset.json` says which benchmark it is for. `types` is the user's own file of task types. Raises UserError.
    """
    if types is not None:
        from medagent.benchmarks.custom.benchmark import custom_named

        return custom_named(types), "" if dataset == BUNDLED else dataset
    if dataset in names():
        return find(dataset), ""
    if is_set(Path(dataset)):
        stated = read_manifest(Path(dataset)).benchmark
        if stated in names():
            return find(stated), dataset
        raise UserError(f"{dataset}: was made from a file of task types; pass the file with --from FILE.py")
    known = [find(name) for name in names()]
    return next((benchmark for benchmark in known if benchmark.names_data(dataset)), known[0]), dataset
