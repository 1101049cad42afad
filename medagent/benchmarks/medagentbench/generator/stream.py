"""An endless stream of training tasks from a seed. Data sets are generated one by one, when they are needed."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from shutil import rmtree

from medagent.benchmarks.clinical.tasks import Task
from medagent.benchmarks.generated_sets import HOSPITAL
from medagent.benchmarks.medagentbench.generator.write import GENERATOR, MabGenerator, set_number
from medagent.benchmarks.medagentbench.tasks.dataset import load_dataset
from medagent.core.errors import UserError
from medagent.core.paths import cache_dir
from medagent.core.writing import locked
from medagent.engine.data_sets import SetOptions
from medagent.engine.settings import mixed
from medagent.fhir_data.embedded import imported_file
from medagent.fhir_episodes.benchmark import Training

_PATIENTS = 100
"""The patients of one set."""
_PER_TYPE: Mapping[str, int] = {"train": 300, "dev": 30, "ood": 30}
"""The tasks of each type in one set. Only a training set repeats its patients, with other wordings."""


def training_task(stream: Training, number: int, report: Callable[[str], None] = lambda _: None) -> tuple[Path, Task]:
    """A task by its number (from 0), and the folder of its set. The seeds of the sets are `SEED/0`, `SEED/1`, ….

    `report` gets a line while a set is made. Raises UserError.
    """
    if number < 0:
        raise UserError(f"task {number}: the number of a training task must be 0 or more")
    size = len(_tasks(_folder(stream, 0, report)))
    folder = _folder(stream, number // size, report)
    return folder, _tasks(folder)[number % size]


def _folder(stream: Training, number: int, report: Callable[[str], None]) -> Path:
    """The folder of a set. If the cache lacks it, one process makes it, and imports its hospital."""
    seed = f"{stream.seed}/{number}"
    stated = "shift" if stream.split == "ood" else stream.like
    per_type = _PER_TYPE[stream.split]
    options = SetOptions(stated, stream.split, seed, _PATIENTS, per_type, stream.injected)
    generator = MabGenerator()
    name = f"{set_number(seed, generator.like(options), stream.split):064x}"[:32]
    injected = f"-injected-{stream.injected:g}" if stream.injected else ""
    folder = cache_dir() / "training" / f"{stream.split}-{GENERATOR}-{_PATIENTS}-{per_type}-{name}{injected}"
    if folder.is_dir():
        return folder
    work = f"making {_PATIENTS} patients and their training tasks for the seed {seed} (once; about half a minute)"
    aside = folder.with_name(f".{folder.name}.{os.getpid()}")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with locked(folder.with_name(f".{folder.name}.lock"), lambda: report(f"waiting for another process: {work}")):
            if not folder.is_dir():  # otherwise another process has made it in the meantime
                report(work)
                generator.make(aside, options)
                imported_file(aside / HOSPITAL)
                aside.rename(folder)
    except OSError as error:
        if not folder.is_dir():  # it was made on a file system without locks
            raise UserError(f"{folder}: cannot be written: {error.strerror}") from None
    finally:
        rmtree(aside, ignore_errors=True)
    return folder


@lru_cache(maxsize=64)
def _tasks(folder: Path) -> tuple[Task, ...]:
    """The tasks of a set, in an order that mixes the types."""
    tasks = {task.id: task for task in load_dataset(str(folder), "v2").tasks}
    return tuple(tasks[name] for name in mixed(list(tasks), lambda name: tasks[name].type))
