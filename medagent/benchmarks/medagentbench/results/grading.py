"""Finds the data set of a results file, from the file and from the `run.json` beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fhir_server.synthetic.bundled import DIGEST
from medagent.benchmarks.made_folders import HOSPITAL
from medagent.benchmarks.medagentbench.tasks.dataset import BUNDLED, VERSIONS, Dataset, load_dataset, load_tasks_file
from medagent.core.errors import UserError
from medagent.core.named_paths import named_path
from refsol.medagentbench import PUBLISHED, stated_version


def task_set(results: Path, tasks_file: Path | None, dataset: str | None) -> Dataset:
    """The task file if one is named. Otherwise the data set: the named one, that of `run.json`, or the bundled one.

    A data set is loaded in the version of the results file. Raises UserError, InputError.
    """
    settings = run_settings(results)
    if tasks_file is not None:
        tasks = load_tasks_file(tasks_file)
    else:
        version = stated_version(results) or settings.get("version")
        if version not in VERSIONS:
            problem = "has no version" if version is None else f"unknown version {version!a}"
            raise UserError(f"{results}: {problem}; name its task file with --tasks")
        named = dataset or named_path(results.parent, "dataset", settings.get("dataset") or BUNDLED)
        tasks = load_dataset(named, version)
    if settings.get("tasks-digest") not in (None, tasks.digest):
        raise UserError(
            f"{results}: by the run.json beside it, the run used another task set than {tasks.path}; name its task "
            "file with --tasks and its patient data with --ehr"
        )
    return tasks


def check_patients(results: Path, dataset: Dataset) -> None:
    """Raises UserError if `run.json` says that the run used other patients than the data set's.

    Used if no source of facts is named. A FHIR server is assumed to have the data set's patients.
    """
    patients = run_settings(results).get("ehr-digest")
    own = dataset.manifest.files[HOSPITAL] if dataset.manifest else DIGEST
    if patients not in (None, own):
        raise UserError(
            f"{results}: by the run.json beside it, the run used other patient data than the data set's; name it with "
            "--ehr"
        )


def shown_base(results: Path) -> str:
    """The FHIR base that agents were shown: that of `run.json`, otherwise the benchmark's. Raises UserError."""
    base = run_settings(results).get("api-base")
    return base if isinstance(base, str) else PUBLISHED.base


def run_settings(results: Path) -> dict[str, Any]:
    """The settings in the `run.json` beside a results file. Empty if there is no `run.json`.

    Raises UserError if it is damaged.
    """
    path = results.with_name("run.json")
    if not path.exists():
        return {}
    try:
        settings = json.loads(path.read_bytes())["settings"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        settings = None
    if not isinstance(settings, dict):
        raise UserError(f"{path}: is damaged; move it away to grade without it")
    return settings
