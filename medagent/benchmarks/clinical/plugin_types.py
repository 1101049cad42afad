"""Task types of a user's file, or of a package that is not a benchmark, and the digest of their code."""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from types import ModuleType

from medagent.core.code_digest import code_digest
from medagent.core.errors import UserError
from medagent.core.plugins import Plugin, classes_in
from medagent.engine.benchmark import Benchmark
from refsol.clinical.task_type import TaskType
from refsol.clinical.trial import created, types_of


def types_in(plugin: Plugin) -> tuple[TaskType, ...]:
    """The task types of a plug-in: all of a file, or one. Raises UserError, RuleError."""
    loaded = plugin.load()
    if isinstance(loaded, ModuleType):
        _check_no_benchmark(loaded, plugin.path)
        return types_of(loaded, plugin.path)
    if isinstance(loaded, type) and issubclass(loaded, TaskType):
        return (created(loaded),)
    raise UserError(f"{plugin.path}: is not a subclass of medagent.Benchmark or medagent.clinical.TaskType")


@lru_cache(maxsize=64)
def types_digest(classes: tuple[type[TaskType], ...]) -> str:
    """The digest of the code of task types. It is computed once: a class that was imported does not change."""
    digests = [code_digest(task_class, {}) for task_class in classes]
    return sha256("\n".join(digests).encode()).hexdigest()


def _check_no_benchmark(module: ModuleType, path: str) -> None:
    """Raise UserError for a file of a benchmark's class instead of task types: the command must name the class."""
    classes = classes_in(module)
    if any(issubclass(defined, TaskType) for defined in classes.values()):
        return
    names = [name for name, defined in classes.items() if issubclass(defined, Benchmark)]
    if names:
        raise UserError(f"{path}: defines a benchmark, not task types; name its class: {path}:{names[0]}")
