"""A task set: a folder with `dataset.json`, `tasks.jsonl`, and usually `reads.jsonl` and the patients."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from medagent.benchmarks.clinical.tasks import TASKS, Task, read_tasks, tasks_text
from medagent.benchmarks.generated_sets import HOSPITAL, SEED, checked_file, file_digests, write_manifest
from medagent.core.errors import UserError
from medagent.core.paths import file_state
from medagent.engine.data_sets import MANIFEST, SetManifest, read_manifest
from refsol.clinical.recorded import READS

BESIDE = ("functions.json", "protocol.toml")
"""Files that a set may contain: the function list and the prompt of a published benchmark."""


@dataclass(frozen=True, slots=True)
class TaskSet:
    """The tasks of a set, or of a part of it, in the order of their file. `path` is the file of the tasks."""

    name: str
    tasks: tuple[Task, ...]
    digest: str
    path: Path
    manifest: SetManifest
    part: str = ""
    """The part of the set, such as `v1`; empty: all tasks."""
    alone: bool = False
    """Whether it is a single file of tasks. Other files in its folder do not belong to it."""

    @property
    def folder(self) -> Path:
        """The folder of the set."""
        return self.path.parent

    @property
    def clock(self) -> datetime:
        """The time of the tasks."""
        return self.manifest.clock

    @property
    def has_twins(self) -> bool:
        """Whether its tasks are twins."""
        return any(task.twin for task in self.tasks)

    @property
    def over_bundled(self) -> bool:
        """Whether its patients are those of the bundled hospital: it was generated, and has none of its own."""
        generated = self.manifest.generated
        return generated is not None and HOSPITAL not in self.manifest.files and not generated.server

    @property
    def hospital(self) -> Path | None:
        """The set's file of patients; None if there is none. Raises UserError if the file has changed."""
        return checked_file(self.folder, self.manifest.files, HOSPITAL) if HOSPITAL in self.manifest.files else None

    @property
    def lost_hospital(self) -> bool:
        """Whether the file of patients is missing, but the folder contains the seed."""
        absent = HOSPITAL in self.manifest.files and not (self.folder / HOSPITAL).exists()
        return absent and (self.folder / SEED).is_file()

    @property
    def reads(self) -> Path | None:
        """The set's file of recorded searches; None if there is none. Raises UserError if the file has changed."""
        return checked_file(self.folder, self.manifest.files, READS) if READS in self.manifest.files else None

    def beside(self, name: str) -> Path | None:
        """Another file of the set's folder, such as `functions.json`; None if there is none."""
        path = self.folder / name
        return path if not self.alone and path.is_file() else None

    def of(self, tasks: Sequence[Task], part: str) -> TaskSet:
        """The set with only these of its tasks, under the name of a part."""
        return replace(self, tasks=tuple(tasks), part=part, digest=text_digest(tasks_text(tasks)))


def text_digest(text: str) -> str:
    """The SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def load_set(folder: Path, part: str = "") -> TaskSet:
    """The set in a folder, or a part that its manifest names. Raises UserError with the place of each problem."""
    manifest_path, path = folder / MANIFEST, folder / TASKS
    states = [file_state(path) if path.is_file() else () for path in (manifest_path, path)]
    whole = _whole(folder, *states)
    manifest = whole.manifest
    if not part:
        return whole
    if part not in manifest.parts:
        known = f"its parts are {', '.join(manifest.parts)}" if manifest.parts else "the set has no parts"
        raise UserError(f"{folder}: does not contain a part {part!r}; {known}")
    chosen = set(manifest.parts[part])
    return whole.of([task for task in whole.tasks if task.id in chosen], part)


@lru_cache(maxsize=8)
def _whole(folder: Path, manifest_state: tuple[int, ...], tasks_state: tuple[int, ...]) -> TaskSet:
    """The set in a folder. Unchanged files are read once."""
    manifest = read_manifest(folder)
    path = checked_file(folder, manifest.files, TASKS)
    return TaskSet(manifest.name, read_tasks(path), manifest.files[TASKS], path, manifest)


def write_set(
    folder: Path, manifest: SetManifest, tasks: Iterable[Task], reads: Iterable[str], files: Sequence[str] = ()
) -> SetManifest:
    """Write the tasks (with the canary), recorded searches and the manifest into a folder. `files` are further files
    that the folder contains already. Returns the manifest with the digests of all.
    """
    marked = [task.model_copy(update={"canary": manifest.canary}) for task in tasks]
    (folder / TASKS).write_text(tasks_text(marked), encoding="utf-8", newline="\n")
    with (folder / READS).open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(reads)
    if (folder / READS).stat().st_size == 0:
        (folder / READS).unlink()
    digests = file_digests(folder, (*files, TASKS, READS))
    complete = manifest.model_copy(update={"files": digests})
    write_manifest(folder, complete)
    return complete


def set_files(tasks: Sequence[Task], manifest: SetManifest, reads: Iterable[str]) -> Mapping[str, bytes]:
    """A set as files by name, for a packed item."""
    contents: dict[str, Any] = {TASKS: tasks_text(tasks).encode(), READS: "".join(reads).encode()}
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    text = manifest.model_copy(update={"files": digests}).model_dump_json(indent=1)
    return {MANIFEST: text.encode() + b"\n", **contents}
