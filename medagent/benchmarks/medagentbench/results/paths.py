"""Where the files of a run lie: results and grades, one of each a trial."""

from __future__ import annotations

from pathlib import Path

from medagent.errors import UserError


def results_path(folder: Path, trial: int) -> Path:
    """`results.json` for the first trial, `results.2.json` for the second."""
    return folder / ("results.json" if trial == 1 else f"results.{trial}.json")


def results_file(path: Path) -> Path:
    """The results file of a run's folder, or the file itself. Raises UserError where there is none."""
    file = results_path(path, 1) if path.is_dir() else path
    if not file.is_file():
        raise UserError(f"{file}: is not there; name a finished run's folder or a results file")
    return file


def grade_path(results: Path) -> Path:
    """Where the verdicts on a results file are kept: `grade.2.json` beside `results.2.json`."""
    return results.with_name("grade" + results.name.removeprefix("results"))
