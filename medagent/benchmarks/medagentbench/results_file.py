"""Results files of any tool: their items are rows, graded like a run's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fhir_server.synthetic.bundled import DIGEST
from medagent.benchmarks.clinical.benchmark import ClinicalBenchmark
from medagent.benchmarks.clinical.sets import TaskSet
from medagent.benchmarks.generated_sets import HOSPITAL
from medagent.benchmarks.medagentbench._metrics import GROUPS
from medagent.benchmarks.medagentbench.results.files import results_file
from medagent.benchmarks.medagentbench.results.recorded_rows import RecordedRow
from medagent.benchmarks.medagentbench.settings import MedAgentBenchGrading
from medagent.benchmarks.medagentbench.tasks.dataset import (
    VERSIONS,
    is_bundled,
    load_dataset,
    load_tasks_file,
    ref,
    set_of_run,
)
from medagent.core.errors import UserError
from medagent.core.named_paths import named_path
from medagent.core.options import checked
from medagent.core.version import versions
from medagent.core.writing import inside
from medagent.engine.folder import read_run
from medagent.engine.results import GradedFile, RecordedRows, grade_rows
from medagent.engine.rows import Spent
from medagent.fhir_episodes.session import Turn
from medagent.fhir_episodes.task import FhirItem
from medagent.reports.tables import named
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
from refsol.medagentbench.formats import RESULTS_FILE, is_results_file

_SELECTING = ("limit", "ids", "tasks", "per-type")
"""The options of a run that select a part of the tasks."""


def graded_file(benchmark: Any, path: Path, options: Mapping[str, Any], *, every_rule: bool = False) -> GradedFile:
    """Grade a results file, or the first one in a folder without a journal. `every_rule`: by all rule sets.

    Raises UserError, InputError or FactsError.
    """
    results, grading = results_file(path), checked(MedAgentBenchGrading, options)
    run = _run_beside(results)
    settings = run.get("settings", {})
    dataset = _task_set(results, settings, grading)
    folder = str(dataset.folder) if dataset.manifest.files and not is_bundled(dataset) else dataset.name
    values = {
        "version": dataset.part,
        "dataset": str(dataset.path) if dataset.alone else folder,
        "fhir": grading.fhir,
        "ehr": grading.ehr,
        "key": grading.key,
        "api_base": grading.base or settings.get("api-base") or PUBLISHED.base,
        "official": grading.official,
        "no_grounds": grading.no_grounds,
        **{name: settings[key] for key, name in (("page-size", "page_size"), ("order", "order")) if settings.get(key)},
    }
    source = checked(MedAgentBenchGrading, values).model_copy(update={"writes": settings.get("writes") or "ack"})
    answers = read_recorded(results, [task.published for task in dataset.tasks])
    counts = Counter(item.task_id for item in answers.items)
    duplicates = [task_id for task_id, count in counts.items() if count > 1]
    file = RecordedRows(
        source,
        ref(dataset),
        list(_rows(benchmark, answers, episodes_beside(results), dataset, source)),
        list(_notes(answers, duplicates)),
        settings,
        run.get("versions", versions()),
        total=0 if any(run.get("places", {}).get(option) for option in _SELECTING) else len(dataset.tasks),
        verdicts=answers.verdicts,
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
    """The patient of each task. Empty for a file of another format, which does not name them."""
    if not is_results_file(file):
        return {}
    return {item.task_id: item.eval_MRN for item in read_results(file).results}


def _run_beside(results: Path) -> Mapping[str, Any]:
    """The `run.json` next to a results file. Empty if there is none. Raises UserError if it is damaged."""
    path = inside(results.with_name("run.json"))
    if not path.exists():
        return {}
    if not isinstance(as_object(json_value(path.read_bytes())).get("settings"), dict):
        raise UserError(f"{path}: is damaged; move it away to grade without it")
    return read_run(path.parent)


def _task_set(results: Path, settings: Mapping[str, Any], grading: MedAgentBenchGrading) -> TaskSet:
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
    patients = dataset.manifest.files.get(HOSPITAL, DIGEST)
    of_the_set = (grading.fhir, grading.ehr, grading.key) == (None, None, None)
    if of_the_set and settings.get("ehr-digest") not in (None, patients):
        raise UserError(
            f"{results}: by the run.json next to it, the run used other patient data than the data set's; name it with "
            "--ehr"
        )
    return dataset


def _rows(
    benchmark: ClinicalBenchmark[Any],
    answers: RecordedRun,
    beside: Mapping[str, RecordedEpisode],
    dataset: TaskSet,
    source: MedAgentBenchGrading,
) -> Iterator[tuple[FhirItem, int, RecordedRow]]:
    """A row for the first item of each task, with its posts, or with the whole conversation if it is known."""
    tasks, episodes = {task.id: task for task in dataset.tasks}, {**answers.episodes, **beside}
    first: dict[str, ResultItem] = {}
    for item in answers.items:
        first.setdefault(item.task_id, item)
    for name, item in first.items():
        task, episode = tasks.get(name), episodes.get(name) or RecordedEpisode(name, 1, "completed", None)
        turns = [
            Turn("agent" if message.role == "agent" else "user", message.content)
            for message in episode.transcript or item.post_history
        ]
        about: FhirItem
        if task is None:
            about, problem = FhirItem(id=name, group=task_type({"id": name})), f"unknown task id {name!r}"
        else:
            about = benchmark.item_of(dataset, task, source)
            problem = item.contradiction(task.published)
            if not problem and name in answers.without_posts and task.type not in GROUPS["query"]:
                problem = "POSTs unknown: the file contains no messages, and this type may need an order"
        row = RecordedRow.model_construct(
            unit=name,
            status="completed",
            task_id=name,
            answer=item.answer,
            transcript=turns,
            created=[],
            spent=Spent(),
            item=item,
            episode=episode,
            problem=problem,
        )
        yield about, 1, row


def _notes(answers: RecordedRun, duplicates: list[str]) -> Iterator[str]:
    """Notes about the file: its format, warnings and duplicates."""
    if answers.form != RESULTS_FILE:
        yield f"Read as {answers.form}."
    if answers.without_posts:
        yield f"POSTs unknown: only {', '.join(GROUPS['query'])} are graded, which never need an order."
    yield from (f"Warning: {warning}" for warning in answers.warnings)
    if duplicates:
        yield f"Duplicates in the file, of which only the first was graded: {named(duplicates)}"
