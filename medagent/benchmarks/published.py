"""Files in the format of the default benchmark, and the options that are about them.

`medagent grade FILE`, `validate`, `compare`, `report` and `submit` find the benchmark of a published file here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medagent.benchmarks.base import DEFAULT, find
from medagent.benchmarks.medagentbench.settings import MedAgentBenchGrading
from medagent.benchmarks.psb300.settings import Psb300Grading
from medagent.engine.results import GradedFile
from medagent.fhir_episodes.settings import FhirSettings

if TYPE_CHECKING:
    from medagent.benchmarks.medagentbench.results.validate import FormatProblem
    from medagent.benchmarks.medagentbench.submission.check import Checked
    from medagent.benchmarks.medagentbench.submission.pack import Packed

FileGrading = MedAgentBenchGrading
"""The options of grading a results file."""
GRADINGS: tuple[type[FhirSettings], ...] = (Psb300Grading, MedAgentBenchGrading)
"""The models with options of `medagent grade`."""


def graded_file(path: Path, options: Mapping[str, Any], *, every_rule: bool = False) -> GradedFile:
    """Grade a results file. Raises UserError, InputError."""
    from medagent.benchmarks.medagentbench import results_file

    return results_file.graded_file(find(DEFAULT), path, options, every_rule=every_rule)


def check_same_patients(first: Path, second: Path) -> None:
    """Raises UserError if two results files use the same task ids for different patients."""
    from medagent.benchmarks.medagentbench import results_file

    results_file.check_same_patients(first, second)


def results_file(path: Path) -> Path:
    """The results file of a folder, or the file itself. Raises UserError if it is missing."""
    from medagent.benchmarks.medagentbench.results import files

    return files.results_file(path)


def validate(path: Path, tasks: Path | None) -> Sequence[FormatProblem]:
    """All problems of a results file. Raises UserError, InputError."""
    from medagent.benchmarks.medagentbench.results import validate as validator

    return validator.validate(path, tasks)


def lines(problems: Sequence[FormatProblem], *, every: bool) -> Iterator[str]:
    """Problems of a results file as lines. Equal ones share a line, unless `every`."""
    from medagent.benchmarks.medagentbench.results import validate as validator

    return validator.lines(problems, every=every)


def write_pack(run: Path, out: Path, *, partial: bool, with_skill: bool) -> Packed:
    """Pack a run into an archive. Raises UserError."""
    from medagent.benchmarks.medagentbench.submission import pack

    return pack.write_pack(run, out, partial=partial, with_skill=with_skill)


def check_pack(pack: Path, *, dataset: str | None = None, ehr: Path | None = None) -> Checked:
    """Check an archive. Raises UserError if it is not one."""
    from medagent.benchmarks.medagentbench.submission import check

    return check.check(pack, dataset=dataset, ehr=ehr)


def task_schema() -> Mapping[str, Any]:
    """The JSON schema of a task file."""
    from medagent.benchmarks.medagentbench.tasks import dataset

    return dataset.task_schema()


def write_answer_key(out: Path, dataset: str, version: str, fhir: str | None, ehr: Path | None) -> tuple[int, int, int]:
    """Write the recorded searches of a task set: the numbers of patients, searches and tasks. Raises UserError."""
    from medagent.benchmarks.medagentbench.benchmark import write_key

    return write_key(out, MedAgentBenchGrading(dataset=dataset, version=version, fhir=fhir, ehr=ehr))
