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
from refsol.errors import InputError

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


def installed() -> list[Benchmark[Any, Any]]:
    """All installed benchmarks, the default one first, without those whose package cannot be imported: each is named in
    a warning.
    """
    from medagent.reports.tables import say

    benchmarks = list[Benchmark[Any, Any]]()
    for name in names():
        try:
            benchmarks.append(find(name))
        except (UserError, InputError) as error:
            say(f"warning: the benchmark {name} is left out: {error}")
    return benchmarks


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

    return [benchmark.reference or benchmark.name for benchmark in installed() if isinstance(benchmark, FhirBenchmark)]


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
    """The benchmark of `data new --like`, and the kind of set: a kind of the default benchmark, or the name of an
    installed benchmark, which stands for its sets. Raises UserError for any other text.
    """
    default = find(DEFAULT)
    kinds = default.generator().kinds
    if kind is None or kind in kinds:
        return default, kind or ""
    if kind in names():
        return find(kind), ""
    known = [*kinds, *fhir_names()]
    raise UserError(f"--like: {kind!r} is unknown; known: {', '.join(known)}.{did_you_mean(kind, known)}")


def of_dataset(dataset: str, types: str | None = None) -> tuple[Benchmark[Any, Any], str]:
    """The benchmark of a data set, and the set's name there (empty: the benchmark's bundled one).

    A data set is named by its benchmark, by a name that a benchmark knows, by a file, or by a folder, whose
    `dataset.json` says which benchmark it is for. `types` is the user's own file of task types. Raises UserError.
    """
    if types is not None:
        from medagent.benchmarks.custom.benchmark import custom_named

        custom = custom_named(types)
        _check_custom(dataset, custom.set_benchmark)
        return custom, "" if dataset == BUNDLED else dataset
    if dataset in names():
        return find(dataset), ""
    if is_set(Path(dataset)) and (stated := read_manifest(Path(dataset)).benchmark) in names():
        return find(stated), dataset
    known = installed()
    benchmark = next((benchmark for benchmark in known if benchmark.names_data(dataset)), None)
    if benchmark is None and is_set(Path(dataset)):
        raise UserError(f"{dataset}: {_not_installed(read_manifest(Path(dataset)).benchmark)}")
    return benchmark or known[0], dataset


def _not_installed(stated: str) -> str:
    """Why there is no benchmark for a set, by the benchmark in its manifest."""
    from medagent.benchmarks.custom.benchmark import CUSTOM

    if stated == CUSTOM:
        return "was made from a file of task types; pass the file with --from FILE.py"
    return f"is a set of the benchmark {stated!r}, which is not installed; known: {', '.join(names())}"


def _check_custom(dataset: str, custom: str) -> None:
    """Raises UserError for a set that was not made from a file of task types."""
    if is_set(Path(dataset)) and (stated := read_manifest(Path(dataset)).benchmark) != custom:
        raise UserError(f"{dataset}: is a set of {stated}, not of a file of task types; leave --from out")
