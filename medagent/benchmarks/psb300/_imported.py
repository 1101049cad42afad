"""Imports the published task file from a user's checkout, as the data set `published`.

This project does not contain the file or its texts. A file with other bytes than the published one is imported too,
with a warning that says how its format differs.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medagent.benchmarks.clinical.sets import write_set
from medagent.benchmarks.clinical.tasks import Task
from medagent.benchmarks.psb300.tasks import (
    IMPORTED,
    PER_TYPE,
    PSB300,
    PUBLISHED_DIGEST,
    imported_folder,
    read_published,
)
from medagent.core.paths import data_dir
from medagent.core.writing import file_digest, write_whole, writing
from medagent.engine.data_sets import ImportedData, SetManifest
from refsol.psb300 import PUBLISHED, TYPES, stated_now

PUBLISHED_NAME = "new_patient_tasks.json"
FUNCTIONS_NAME, FUNCTIONS = "funcs_v1.json", "functions.json"
FUNCTIONS_DIGEST = "c977266db5eca75182c0d12cac1962b33ae6b5a54b9029ceb104e1a93b4c38c1"
"""The SHA-256 of MedAgentBench's function list, which is part of the published text prompt."""
_FIELDS = {"id", "instruction", "context", "eval_MRN"}


@dataclass(frozen=True, slots=True)
class Import:
    """The result of an import: where the tasks are now, their number, and warnings."""

    folder: Path
    source: Path
    tasks: int
    warnings: tuple[str, ...]


def task_file(checkout: Path) -> Path | None:
    """The published task file: `checkout` itself, or the first match by path in it. None if there is none.

    `checkout` may be a file of another name if its bytes are the published ones.
    """
    if checkout.is_file():
        named = checkout.name == PUBLISHED_NAME
        return checkout if named or file_digest(checkout) == PUBLISHED_DIGEST else None
    return min(checkout.rglob(PUBLISHED_NAME), default=None)


def import_published(file: Path) -> Import:
    """Copy a task file into the user's data folder and write its manifest.

    Raises UserError, before anything is written, if the file is not a valid task file.
    """
    tasks = read_published(file)
    raw = file.read_bytes()
    digest = hashlib.sha256(raw).hexdigest()
    warnings = list(_differences(tasks, json.loads(raw))) if digest != PUBLISHED_DIGEST else []
    if digest != PUBLISHED_DIGEST:
        form = "; ".join(warnings) or "its fields are the published ones, but its texts or its layout differ"
        warnings = [f"{file}: is not the published file (SHA-256 {digest[:16]}…): {form}"]
    functions = _functions(file)
    if functions is None:
        warnings.append(
            f"{FUNCTIONS_NAME} was not found next to {file} or among imported data: the text protocol will show this "
            "project's own function list"
        )
    folder = imported_folder()
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if functions is not None:
            write_whole(folder / FUNCTIONS, functions.read_text(encoding="utf-8"))
        stated = {"published": digest}
        manifest = SetManifest(name=IMPORTED, benchmark=PSB300, clock=PUBLISHED.default_now, constants=stated, files={})
        write_set(folder, manifest, tasks, (), (FUNCTIONS,))
    return Import(folder, file, len(tasks), tuple(warnings))


def import_from(path: Path) -> ImportedData | None:
    """Import the task file of a checkout. None if the task file is missing."""
    file = task_file(path)
    if file is None:
        return None
    done = import_published(file)
    line = (
        f"{done.folder}: {done.tasks} tasks of psb-300 imported from {file}. Run them: medagent run psb-300 "
        "--dataset published --fhir http://localhost:8080/fhir/"
    )
    return ImportedData(line, done.warnings)


def _functions(file: Path) -> Path | None:
    """MedAgentBench's function list: next to the task file, or in the imported data of MedAgentBench."""
    places = (file.with_name(FUNCTIONS_NAME), data_dir() / "official" / FUNCTIONS)
    return next((path for path in places if path.is_file() and file_digest(path) == FUNCTIONS_DIGEST), None)


def _differences(tasks: Sequence[Task], raw: Sequence[dict[str, Any]]) -> Iterator[str]:
    """How the format of a task file differs from the published one, one text per difference."""
    counts = Counter(task.type for task in tasks)
    if odd := [f"{counts[name]} of {name}" for name in TYPES if counts[name] != PER_TYPE]:
        yield f"it should have {PER_TYPE} tasks of each type, but contains {', '.join(odd)}"
    names = {name for task in raw for name in task}
    if more := sorted(names - _FIELDS):
        yield f"it contains fields that the published file does not have: {', '.join(more)}"
    if lacking := [task["id"] for task in raw if not task.keys() >= _FIELDS]:
        yield f"the context of these tasks is missing: {_some(lacking)}"
    if unnamed := [task.id for task in tasks if task.patient not in task.text]:
        yield f"the instruction does not contain the MRN: {_some(unnamed)}"
    timeless = [task.id for task in tasks if _lacks_time(task)]
    if len(timeless) != 1:
        yield f"one context should lack a readable time, but {len(timeless)} do: {_some(timeless)}"


def _lacks_time(task: Task) -> bool:
    """Whether the context lacks a readable time, in a type whose rule needs it."""
    return task.type in ("task3", "task4", "task9", "task10") and stated_now(task.context) is None


def _some(ids: Sequence[str]) -> str:
    return ", ".join(ids[:3]) + (f" and {len(ids) - 3} more" if len(ids) > 3 else "")
