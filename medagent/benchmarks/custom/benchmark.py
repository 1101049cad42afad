"""A file of task types as a benchmark with FHIR sessions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from types import ModuleType
from typing import Any, ClassVar

from medagent.benchmarks.clinical.benchmark import ClinicalBenchmark
from medagent.benchmarks.clinical.items import OpenSet
from medagent.benchmarks.clinical.settings import ClinicalSettings
from medagent.core import plugins
from medagent.core.errors import UserError
from medagent.core.plugins import Plugin, classes_in, is_import_path
from medagent.engine.benchmark import Benchmark
from refsol.clinical.task_type import TaskType
from refsol.clinical.trial import created, types_of

CUSTOM = "custom"
"""The benchmark in the manifests of sets that were made from a file of task types."""


class CustomBenchmark(ClinicalBenchmark[ClinicalSettings]):
    """The base of the benchmarks that are made of files. Each defines its plug-in and its types."""

    manifest_name = CUSTOM
    plugin: ClassVar[Plugin]

    def grading_digests(self, source: Any, opened: OpenSet) -> Mapping[str, str]:
        return {**super().grading_digests(source, opened), "types": self.plugin.digest}

    def types_source(self) -> Callable[[], Sequence[TaskType]]:
        return partial(types_in, self.plugin)


def types_in(plugin: Plugin) -> tuple[TaskType, ...]:
    """The task types of a plug-in: all of a file, or one. Raises UserError, RuleError."""
    loaded = plugin.load()
    if isinstance(loaded, ModuleType):
        _check_no_benchmark(loaded, plugin.path)
        return types_of(loaded, plugin.path)
    if isinstance(loaded, type) and issubclass(loaded, TaskType):
        return (created(loaded),)
    raise UserError(f"{plugin.path}: is not a subclass of medagent.Benchmark or medagent.clinical.TaskType")


def _check_no_benchmark(module: ModuleType, path: str) -> None:
    """Raise UserError for a file of a benchmark's class instead of task types: the command must name the class."""
    classes = classes_in(module)
    if any(issubclass(defined, TaskType) for defined in classes.values()):
        return
    names = [name for name, defined in classes.items() if issubclass(defined, Benchmark)]
    if names:
        raise UserError(f"{path}: defines a benchmark, not task types; name its class: {path}:{names[0]}")


@cache
def _class_of(plugin: Plugin) -> type[CustomBenchmark]:
    """The benchmark class of a plug-in: one for each, because episodes share their parts by class."""
    types = types_in(plugin)
    name = plugin.file.stem if plugin.source is not None else plugin.path.partition(":")[0].rpartition(".")[2]
    suffix = "" if len(types) > 1 or not plugin.name else f"-{types[0].name}"
    lines = [f"{kind.name}: {(inspect.getdoc(type(kind)) or kind.words).splitlines()[0]}" for kind in types]
    about = {"__doc__": "Task types:\n\n" + "\n\n".join(lines), "name": name + suffix, "plugin": plugin, "types": types}
    return type("CustomOfFile", (CustomBenchmark,), about)


def custom_named(reference: str) -> CustomBenchmark:
    """The benchmark of a file, `FILE.py`, or of one of its types, `FILE.py:Name`. Raises UserError, RuleError."""
    plugin = plugins.whole_file(reference) or (plugins.find(reference, "") if is_import_path(reference) else None)
    if plugin is None:
        raise UserError(f"--from {reference}: is not a file of task types; write FILE.py or FILE.py:Name")
    benchmark = custom_of(plugin)
    benchmark.reference = reference
    return benchmark


def custom_of(plugin: Plugin) -> CustomBenchmark:
    """The benchmark of a file of task types, or of one of them. Raises UserError, RuleError."""
    return _class_of(plugin)()
