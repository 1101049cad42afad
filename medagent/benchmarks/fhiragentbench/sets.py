"""Sets of questions: the bundled one, the published one that a user imports, folders of `medagent data new`, and files.

A folder contains `questions.csv`, `dataset.json` with the digest of each file, and possibly the patients.
"""

from __future__ import annotations

import shutil
from functools import lru_cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from medagent.benchmarks.made_folders import HOSPITAL, MANIFEST, Made, checked_file
from medagent.core.errors import UserError
from medagent.core.paths import data_dir
from medagent.core.writing import replacing
from refsol.fhiragentbench import Question, read_questions
from refsol.files import read_json
from refsol.schema import validator

SYNTHETIC, PUBLISHED = "synthetic", "published"
FORMER = "synthetic-1"
"""The bundled questions of generator 1. Runs over them can be graded; their patients cannot be made any more."""


class QuestionSetManifest(BaseModel):
    """The content of `dataset.json`. `files` maps each file's name to its SHA-256."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    files: dict[str, str]
    made: Made


def questions_of(dataset: str) -> tuple[Question, ...]:
    """The questions of a data set: its name, folder or question file. Raises UserError, InputError."""
    path = _file(dataset)
    stat = path.stat()
    return _read(path, stat.st_mtime_ns, stat.st_size)


def manifest_of(dataset: str) -> QuestionSetManifest | None:
    """The manifest of a generated set. None for other questions. Raises UserError."""
    folder = _folder(dataset)
    return read_manifest(folder) if folder else None


def hospital_of(dataset: str) -> Path | None:
    """The file of patients in a set's folder, or None. Raises UserError if the file has changed."""
    folder = _folder(dataset)
    if folder is None:
        return None
    manifest = read_manifest(folder)
    return checked_file(folder, manifest.files, HOSPITAL) if HOSPITAL in manifest.files else None


def bundled_folder(name: str = SYNTHETIC) -> Path:
    """The folder of the bundled set, or of the former one."""
    return Path(__file__).parent / "data" / name


def is_set(folder: Path) -> bool:
    """Whether a folder contains the files of a FHIR-AgentBench set."""
    return (folder / MANIFEST).is_file() and (folder / QUESTIONS).is_file()


def read_manifest(folder: Path) -> QuestionSetManifest:
    """Read a folder's `dataset.json`. Raises UserError."""
    expected = "the manifest of a set of FHIR-AgentBench is expected"
    return read_json(folder / MANIFEST, validator(QuestionSetManifest), expected=expected, error=UserError)


def _folder(dataset: str) -> Path | None:
    """The folder of a generated set. None for other data sets."""
    folder = bundled_folder(dataset) if dataset in (SYNTHETIC, FORMER) else Path(dataset)
    return folder if dataset != PUBLISHED and is_set(folder) else None


def _file(dataset: str) -> Path:
    """The question file of a data set. Raises UserError."""
    folder = _folder(dataset)
    if folder is not None:
        return checked_file(folder, read_manifest(folder).files, QUESTIONS)
    path = imported(QUESTIONS) if dataset == PUBLISHED else Path(dataset)
    if not path.is_file():
        raise UserError(
            f"--dataset {dataset}: no such question file; pass {SYNTHETIC} (bundled), {PUBLISHED} (imported), "
            "a question file, or a folder made by `medagent data new --like fhir-agentbench`"
        )
    return path


@lru_cache(maxsize=4)
def _read(path: Path, changed: int, size: int) -> tuple[Question, ...]:
    return read_questions(path)


QUESTIONS = "questions.csv"
JUDGE_CASES = "judge_cases.jsonl"


def place(name: str) -> Path:
    """The path of an imported file, whether it exists or not."""
    return data_dir() / "fhir-agentbench" / name


def imported(name: str) -> Path:
    """The path of an imported file. Raises UserError if it was not imported."""
    path = place(name)
    if not path.is_file():
        raise UserError(
            f"{name} of FHIR-AgentBench is not bundled with medagent; import it once: medagent data import {name}"
        )
    return path


def keep(source: Path, name: str) -> Path:
    """Copy a checked file to the imported data. The target is replaced only by a complete copy. Raises UserError."""
    target = place(name)
    with replacing(target) as aside:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, aside)
    return target
