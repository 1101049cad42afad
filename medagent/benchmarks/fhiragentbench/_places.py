"""The files that `medagent data import` imports: questions and judge cases."""

from __future__ import annotations

import shutil
from pathlib import Path

from medagent.core.errors import UserError
from medagent.core.paths import data_dir
from medagent.core.writing import replacing

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
