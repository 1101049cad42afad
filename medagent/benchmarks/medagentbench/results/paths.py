"""The paths of a run's results and grade files, one of each per trial."""

from __future__ import annotations

from pathlib import Path

from medagent.core.errors import UserError


def results_path(folder: Path, trial: int) -> Path:
    """`results.json` for the first trial, `results.2.json` for the second."""
    return folder / ("results.json" if trial == 1 else f"results.{trial}.json")


def results_file(path: Path) -> Path:
    """The results file of a folder (a run's or another tool's), or the file itself. Raises UserError if missing."""
    file = path
    if path.is_dir():
        named = (results_path(path, 1), path / "agent_results.json", path / "overall.json", path / "runs.jsonl")
        file = next((one for one in named if one.is_file()), named[0])
    if not file.is_file():
        raise UserError(f"{file}: there is no such file; name a finished run's folder or a results file")
    return file


def grade_path(results: Path) -> Path:
    """The path of the verdicts on a results file: `grade.2.json` for `results.2.json`."""
    return results.with_name("grade" + results.name.removeprefix("results"))
