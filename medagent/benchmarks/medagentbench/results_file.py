"""Results files of any tool: their items are rows, graded like a run's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fhir_server.synthetic.bundled import DIGEST
from medagent.benchmarks.made_folders import HOSPITAL
from medagent.benchmarks.medagentbench._grader import Recorded, RecordedRow
from medagent.benchmarks.medagentbench.data import item_of, task_dicts
from medagent.benchmarks.medagentbench.results.files import results_file
from medagent.benchmarks.medagentbench.settings import MedAgentBenchGrading
from medagent.benchmarks.medagentbench.tasks.dataset import VERSIONS, Dataset, load_dataset, load_tasks_file, set_of_run
from medagent.core.errors import UserError
from medagent.core.figures import counted
from medagent.core.named_paths import named_path
from medagent.core.options import checked
from medagent.core.version import versions
from medagent.engine.benchmark import Benchmark
from medagent.engine.folder import read_run
from medagent.engine.results import GradedFile, RecordedRows, grade_rows
from medagent.engine.rows import Spent
from medagent.fhir_episodes.session import Turn
from medagent.fhir_episodes.task import FhirItem
from medagent.reports.tables import named
from refsol.files import anything, read_json
from refsol.json_values import as_object, json_value
from refsol.medagentbench import (
    PUBLISHED,
    RecordedEpisode,
    RecordedRun,
    ResultItem,
    episodes_beside,
    read_recorded,
    read_results,
    stated_version,
    task_type,
)
from refsol.medagentbench.recorded import MAX_BYTES, RESULTS_FILE, is_official


def graded_file(
    benchmark: Benchmark[Any, Any], path: Path, options: Mapping[str, Any], *, every_rule: bool = False
) -> GradedFile:
    """Grade a results file, or the first one in a folder without a journal. `every_rule`: by all rule sets.

    Raises UserError, InputError or FactsError.
    """
    results, grading = results_file(path), checked(MedAgentBenchGrading, options)
    run = _run_beside(results)
    dataset = _task_set(results, run.get("settings", {}), grading)
    folder = str(dataset.path.parent) if dataset.manifest and not dataset.bundled else dataset.name
    source = MedAgentBenchGrading(
        version=dataset.version,
        dataset=str(dataset.path) if dataset.alone else folder,
        fhir=grading.fhir,
        ehr=grading.ehr,
        key=grading.key,
        api_base=grading.base or run.get("settings", {}).get("api-base") or PUBLISHED.base,
        official=grading.official,
    )
    answers = read_recorded(results, task_dicts(dataset))
    counts = Counter(item.task_id for item in answers.items)
    duplicates = [task_id for task_id, count in counts.items() if count > 1]
    file = RecordedRows(
        source,
        dataset.ref,
        list(_rows(answers, episodes_beside(results), dataset, source)),
        list(_notes(answers, duplicates, dataset)),
        run.get("settings", {}),
        run.get("versions", versions()),
    )
    graded = grade_rows(benchmark, results, file, options, every_rule=every_rule)
    report = graded.report
    document = {**report.details["grades"][0], "duplicates": duplicates}
    changes = {"grades": [document], "ungraded": report.ungraded + len(duplicates)}
    return replace(graded, report=report.model_copy(update=changes))


def check_same_patients(a: Path, b: Path) -> None:
    """Raises UserError if two results files use the same task ids for different patients: the task sets differ."""
    first, second = (_patients(results_file(path)) for path in (a, b))
    shared = [task for task in first if task in second]
    if differing := [task for task in shared if first[task] != second[task]]:
        raise UserError(
            f"{a} and {b} have different task sets: {len(differing)} of {len(shared)} tasks have another patient, "
            f"first {differing[0]!a}; compare results of the same task set"
        )


def _patients(file: Path) -> dict[str, Any]:
    """The patient of each task. Empty for a file of the official runner, which does not name them."""
    if is_official(file, None if file.suffix == ".jsonl" else read_json(file, anything, max_bytes=MAX_BYTES)):
        return {}
    return {item.task_id: item.eval_MRN for item in read_results(file).results}


def _run_beside(results: Path) -> Mapping[str, Any]:
    """The `run.json` next to a results file. Empty if there is none. Raises UserError if it is damaged."""
    path = results.with_name("run.json")
    if not path.is_file():
        return {}
    if not isinstance(as_object(json_value(path.read_bytes())).get("settings"), dict):
        raise UserError(f"{path}: is damaged; move it away to grade without it")
    return read_run(path.parent)


def _task_set(results: Path, settings: Mapping[str, Any], grading: MedAgentBenchGrading) -> Dataset:
    """The task file if one is named. Otherwise the data set: the named one, the run's, or the bundled one, in the
    version of the results file.

    Raises UserError if the run had other tasks, or other patients and no source of facts is named. A FHIR server is
    assumed to contain the data set's patients.
    """
    if grading.tasks is not None:
        dataset = load_tasks_file(grading.tasks)
    else:
        version = stated_version(results) or settings.get("version")
        if version not in VERSIONS:
            problem = "does not state its version" if version is None else f"unknown version {version!a}"
            raise UserError(f"{results}: {problem}; name its task file with --tasks")
        if "dataset" in grading.model_fields_set:
            name = grading.dataset
        else:
            name = named_path(results.parent, "dataset", set_of_run(settings))
        dataset = load_dataset(name, version)
    if settings.get("tasks-digest") not in (None, dataset.digest):
        raise UserError(
            f"{results}: by the run.json next to it, the run used another task set than {dataset.path}; name its task "
            "file with --tasks and its patient data with --ehr"
        )
    patients = dataset.manifest.files.get(HOSPITAL, DIGEST) if dataset.manifest else DIGEST
    own = (grading.fhir, grading.ehr, grading.key) == (None, None, None)
    if own and settings.get("ehr-digest") not in (None, patients):
        raise UserError(
            f"{results}: by the run.json next to it, the run used other patient data than the data set's; name it with "
            "--ehr"
        )
    return dataset


def _rows(
    answers: RecordedRun, beside: Mapping[str, RecordedEpisode], dataset: Dataset, source: MedAgentBenchGrading
) -> Iterator[tuple[FhirItem, int, RecordedRow]]:
    """A row for the first item of each task, with its posts, or with the whole conversation if it is known."""
    tasks, episodes = {task.id: task for task in dataset.tasks}, {**answers.episodes, **beside}
    first: dict[str, ResultItem] = {}
    for item in answers.items:
        first.setdefault(item.task_id, item)
    for name, item in first.items():
        task, episode = tasks.get(name), episodes.get(name) or RecordedEpisode(name, 1, "completed", None)
        turns = [
            Turn("agent" if one.role == "agent" else "user", one.content)
            for one in episode.transcript or item.post_history
        ]
        if task is None:
            about, problem = FhirItem(id=name, group=task_type({"id": name})), f"unknown task id {name!r}"
        else:
            about, problem = item_of(task, dataset, source), item.contradiction(task.model_dump())
        row = RecordedRow.model_construct(
            unit=name,
            status="completed",
            task_id=name,
            answer=item.answer,
            transcript=turns,
            created=[],
            spent=Spent(),
            recorded=Recorded(item, episode, problem),
        )
        yield about, 1, row


def _notes(answers: RecordedRun, duplicates: list[str], dataset: Dataset) -> Iterator[str]:
    """Notes about the file: its format, warnings, duplicates and missing items."""
    if answers.form != RESULTS_FILE:
        yield f"Read as {answers.form}."
    yield from (f"Warning: {warning}" for warning in answers.warnings)
    if duplicates:
        yield f"Duplicates in the file, of which only the first was graded: {named(duplicates)}"
    if absent := len({task.id for task in dataset.tasks} - {item.task_id for item in answers.items}):
        yield f"{counted(absent, 'tasks')} of the task set {'is' if absent == 1 else 'are'} not in the file."
