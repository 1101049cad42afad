"""The verdicts on a run: from the `grade.json` that the run left, or graded now where there is none."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import BaseModel, ValidationError

from medagent.errors import UserError
from medagent.results import grading
from medagent.wire import Text
from refsol.medagentbench import grade_file


class CheckEntry(BaseModel):
    """One check of a verdict."""

    name: str
    passed: bool
    expected: Text
    actual: Text


class ItemEntry(BaseModel):
    """One item's verdict; `correct` is None where it could not be graded."""

    task_id: Text
    correct: bool | None
    reason: Text
    checks: list[CheckEntry]


class GradeFile(BaseModel):
    """What is read of a `grade.json`."""

    rules: str
    items: list[ItemEntry]


def results_file(path: Path) -> Path:
    """The results file of a run's folder, or the file itself. Raises UserError where there is none."""
    file = path / "results.json" if path.is_dir() else path
    if not file.is_file():
        raise UserError(f"{file}: is not there; name a finished run's folder or a results file")
    return file


def read_verdicts(path: Path) -> GradeFile:
    """The official verdicts on a run's folder or a results file.

    Raises UserError, InputError or FactsError where they can be neither read nor made.
    """
    from medagent.report.grade_table import grade_document

    results = results_file(path)
    grade = results.with_name(results.name.replace("results", "grade", 1))
    if grade != results and grade.exists():
        try:
            return GradeFile.model_validate(json.loads(grade.read_bytes()))
        except (OSError, ValidationError, ValueError, RecursionError):
            raise UserError(f"{grade}: is damaged; remove it to have the results graded again") from None
    dataset = grading.task_set(results, None, None)
    facts = grading.facts(dataset, fhir=None, ehr=None, key=None)
    return GradeFile.model_validate(grade_document(grade_file(results, grading.items(dataset), facts)))
