"""A file of task types as a benchmark with FHIR sessions."""

from __future__ import annotations

import inspect
from functools import cache

from medagent.benchmarks.clinical.benchmark import ClinicalBenchmark
from medagent.benchmarks.clinical.plugin_types import types_in
from medagent.benchmarks.clinical.settings import ClinicalSettings
from medagent.core import plugins
from medagent.core.errors import UserError
from medagent.core.plugins import Plugin, is_import_path

CUSTOM = "custom"
"""The benchmark in the manifests of sets that were made from a file of task types."""


class CustomBenchmark(ClinicalBenchmark[ClinicalSettings]):
    """The base of the benchmarks that are made of files. Each defines its plug-in and its types."""

    manifest_name = CUSTOM


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
