"""Sets of questions: the bundled one, the published one that a user imports, folders of `medagent data new`, and files.

A folder contains `questions.csv`, `dataset.json` with the digest of each file, and possibly the patients.
"""

from __future__ import annotations

import shutil
from functools import lru_cache
from pathlib import Path

from medagent.benchmarks.generated_sets import HOSPITAL, checked_file
from medagent.core.errors import UserError
from medagent.core.paths import data_dir
from medagent.core.writing import replacing
from medagent.engine.data_sets import SetManifest, is_set, read_manifest
from refsol.fhiragentbench import Question, read_questions

FHIR_AGENTBENCH, SYNTHETIC, PUBLISHED = "fhir-agentbench", "synthetic", "published"


def questions_of(dataset: str) -> tuple[Question, ...]:
    """The questions of a data set: its name, folder or question file. Raises UserError, InputError."""
    path = _file(dataset)
    stat = path.stat()
    return _read(path, stat.st_mtime_ns, stat.st_size)


def manifest_of(dataset: str) -> SetManifest | None:
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


def bundled_folder() -> Path:
    """The folder of the bundled set."""
    return Path(__file__).parent / "data" / SYNTHETIC


def is_question_set(folder: Path) -> bool:
    """Whether a folder contains a set of FHIR-AgentBench."""
    return is_set(folder) and read_manifest(folder).benchmark == FHIR_AGENTBENCH


def _folder(dataset: str) -> Path | None:
    """The folder of a generated set. None for other data sets."""
    folder = bundled_folder() if dataset == SYNTHETIC else Path(dataset)
    return folder if dataset != PUBLISHED and is_question_set(folder) else None


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
