"""The results files of a run, also of one that is going on: what is there is written aside then."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from medagent.benchmarks.medagentbench.results import grading
from medagent.benchmarks.medagentbench.results.paths import results_path
from medagent.benchmarks.medagentbench.results.write import write_trials
from medagent.benchmarks.medagentbench.tasks.dataset import BUNDLED, Dataset, load_dataset, load_tasks_file
from medagent.core.errors import UserError
from medagent.engine.folder import read_run
from medagent.engine.journals import Run


@contextmanager
def results_of(run: Run, tasks_file: Path | None = None) -> Iterator[tuple[Path, Dataset]]:
    """A folder with the run's results files, and its task set: the run's own folder where it has them.

    `tasks_file` is the task file where the one that the run names is not there any more. Raises UserError.
    """
    if results_path(run.path, 1).is_file():
        yield run.path, grading.task_set(results_path(run.path, 1), tasks_file, None)
        return
    with TemporaryDirectory(prefix="medagent-") as aside:
        folder = Path(aside)
        for name in ("run.json", "episodes.jsonl"):
            (folder / name).symlink_to((run.path / name).resolve())
        dataset = _task_set(run, tasks_file)
        for _ in write_trials(run, folder, dataset, str(run.settings.get("round"))):
            pass
        yield folder, dataset


def _task_set(run: Run, tasks_file: Path | None) -> Dataset:
    named = read_run(run.path).get("places", {}).get("tasks-file")
    path = tasks_file or (Path(named) if isinstance(named, str) else None)
    settings = run.settings
    if path is None:
        dataset = load_dataset(str(settings.get("dataset") or BUNDLED), str(settings.get("version")))
    else:
        dataset = load_tasks_file(path)
    if settings.get("tasks-digest") not in (None, dataset.digest):
        raise UserError(f"{run.path}: was made with another task set than {dataset.path}; name its file with --tasks")
    return dataset
