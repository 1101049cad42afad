"""An endless stream of training tasks from a seed. Data sets are generated one by one, when they are needed."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from shutil import rmtree
from typing import get_args

from medagent.benchmarks.medagentbench.generator.write import GENERATOR, SetOptions, make, seed_number
from medagent.benchmarks.medagentbench.tasks.dataset import Task, load_dataset
from medagent.benchmarks.medagentbench.tasks.manifest import Like
from medagent.core.errors import UserError
from medagent.core.paths import cache_dir
from medagent.engine.settings import mixed
from medagent.fhir_episodes.benchmark import Training

_PATIENTS, _PER_TYPE = 100, 300
"""The size of one set."""


def training_task(stream: Training, number: int) -> tuple[Path, Task]:
    """A task by its number (from 0), and the folder of its set. The seeds of the sets are `SEED/0`, `SEED/1`, ….

    Raises UserError.
    """
    if number < 0:
        raise UserError(f"task {number}: the number of a training task must be 0 or more")
    size = len(_tasks(stream, 0)[1])
    folder, tasks = _tasks(stream, number // size)
    return folder, tasks[number % size]


@lru_cache(maxsize=64)
def _tasks(stream: Training, number: int) -> tuple[Path, tuple[Task, ...]]:
    """The folder of a set and its tasks, in an order that mixes the types. Makes the set if the cache lacks it."""
    name_of_kind = "shift" if stream.split == "ood" else stream.like or "bundled"
    like: Like | None = next((one for one in get_args(Like) if one == name_of_kind), None)
    if like is None:
        raise UserError(f"unknown kind of data set (like) {stream.like!r}; known: {', '.join(get_args(Like))}")
    seed = f"{stream.seed}/{number}"
    name = f"{seed_number(seed, like, stream.split):064x}"[:32]
    injected = f"-injected-{stream.injected:g}" if stream.injected else ""
    folder = cache_dir() / "training" / f"{stream.split}-{GENERATOR}-{_PATIENTS}-{_PER_TYPE}-{name}{injected}"
    if not folder.is_dir():
        aside = folder.with_name(f".{folder.name}.{os.getpid()}")
        try:
            make(aside, SetOptions(like, stream.split, seed, _PATIENTS, _PER_TYPE, stream.injected))
            aside.rename(folder)
        except OSError as error:
            if not folder.is_dir():  # otherwise another process has made it in the meantime
                raise UserError(f"{folder}: cannot be written: {error.strerror}") from None
        finally:
            rmtree(aside, ignore_errors=True)
    tasks = {task.id: task for task in load_dataset(str(folder), "v2").tasks}
    order = mixed(list(tasks), lambda one: tasks[one].type)
    return folder, tuple(tasks[one] for one in order)
