"""An endless series of training tasks from a seed. Data sets are generated one by one, when they are needed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from shutil import rmtree

from medagent.benchmarks.clinical.generation import ClinicalGenerator
from medagent.benchmarks.clinical.sets import load_set
from medagent.benchmarks.clinical.tasks import Task
from medagent.benchmarks.generated_sets import HOSPITAL
from medagent.core.errors import UserError
from medagent.core.paths import cache_dir
from medagent.core.writing import locked
from medagent.engine.data_sets import SetOptions
from medagent.engine.settings import mixed
from medagent.fhir_data.embedded import imported_file
from medagent.fhir_episodes.benchmark import Training

_PATIENTS, _PER_TYPE = 100, 30
"""The patients of one set, and its tasks of each type."""
_WORDINGS = 10
"""How many tasks of a type a training set has for each of those, if the generator repeats patients."""


def training_task(
    generator: ClinicalGenerator, stream: Training, number: int, report: Callable[[str], None] = lambda _: None
) -> tuple[Path, Task]:
    """A task by its number (from 0), and the folder of its set. The seeds of the sets are `SEED/0`, `SEED/1`, ….

    Each set counts as many tasks as the first: in a smaller set, tasks repeat. `report` gets a line while a set is
    made. Raises UserError.
    """
    if number < 0:
        raise UserError(f"task {number}: the number of a training task must be 0 or more")
    size = len(_tasks(_folder(generator, stream, 0, report)))
    folder = _folder(generator, stream, number // size, report)
    tasks = _tasks(folder)
    return folder, tasks[number % size % len(tasks)]


def _options(generator: ClinicalGenerator, stream: Training, number: int) -> SetOptions:
    """The options of a set. Raises UserError for a split that the benchmark does not have."""
    if stream.split != "train" and not generator.has_splits:
        raise UserError(f"{generator.benchmark}: its sets have no splits; leave split={stream.split!r} out")
    split = stream.split if generator.has_splits else None
    per_type = _PER_TYPE * (_WORDINGS if generator.repeats_patients and stream.split == "train" else 1)
    return SetOptions(stream.like, split, f"{stream.seed}/{number}", _PATIENTS, per_type, stream.injected)


def _folder(generator: ClinicalGenerator, stream: Training, number: int, report: Callable[[str], None]) -> Path:
    """The folder of a set. If the cache lacks it, one process makes it, and imports its hospital."""
    options = _options(generator, stream, number)
    made_by = {"benchmark": generator.benchmark, "version": generator.version, "code": generator.code}
    decides = {**made_by, **asdict(options), "like": generator.like(options)}
    folder = cache_dir() / "training" / sha256(json.dumps(decides).encode()).hexdigest()[:32]
    if folder.is_dir():
        return folder
    what = f"{_PATIENTS} patients and their training tasks"
    work = f"making {what} for the seed {options.seed} (once; about half a minute)"
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
    tasks = {task.id: task for task in load_set(folder).tasks}
    return tuple(tasks[name] for name in mixed(list(tasks), lambda name: tasks[name].type))
