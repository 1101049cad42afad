"""Compares the patients of two results files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from medagent.benchmarks.medagentbench.results.paths import results_file
from medagent.core.errors import UserError
from refsol.files import anything, read_json
from refsol.medagentbench import read_results
from refsol.medagentbench.recorded import is_official
from refsol.medagentbench.results import MAX_BYTES


def check_same_patients(a: Path, b: Path) -> None:
    """Raises UserError if two results files have different patients for the same task ids: the task sets differ.

    The official runner's files do not name patients, so they are not checked.
    """
    patients = [_patients(results_file(path)) for path in (a, b)]
    if None in patients:
        return
    first, second = ({} if one is None else one for one in patients)
    shared = [task for task in first if task in second]
    if differing := [task for task in shared if first[task] != second[task]]:
        raise UserError(
            f"{a} and {b} have different task sets: {len(differing)} of {len(shared)} tasks have another patient, "
            f"first {differing[0]!a}; compare results of the same task set"
        )


def _patients(file: Path) -> dict[str, Any] | None:
    if is_official(file, None if file.suffix == ".jsonl" else read_json(file, anything, max_bytes=MAX_BYTES)):
        return None
    return {item.task_id: item.eval_MRN for item in read_results(file).results}
