"""Reads a run's folder or a results file for the API: its outcomes, and whether two of them can be compared."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medagent.benchmarks.base import DEFAULT, find, of_folder
from medagent.benchmarks.published import check_same_patients, graded_file
from medagent.core.errors import UserError
from medagent.core.options import options
from medagent.core.scrub import remember_environment
from medagent.core.suggest import did_you_mean
from medagent.core.writing import followed, write_parts
from medagent.engine.benchmark import Benchmark
from medagent.engine.folder import Journals, Run
from medagent.engine.patient_data import has_patient_data, shown_elsewhere
from medagent.engine.plan import JOURNAL
from medagent.engine.report import ItemView, Report
from medagent.engine.results import GradedRun, graded_report, last_report, report_of
from medagent.engine.scores import SCORES, Paired, StoredScores
from medagent.reports.item_view import item_view
from medagent.reports.tool_logs import (
    LoggedBenchmark,
    LoggedRun,
    check_same_benchmark,
    check_same_questions,
    logged_runs,
)

if TYPE_CHECKING:
    from medagent.reports.page.render import RunPage

Code = str | type[Benchmark[Any, Any]]
"""An import path or a class: the code of a benchmark that is not installed."""


def is_run(path: Path) -> bool:
    """Whether a path is a run's folder."""
    return (path / "run.json").is_file()


def check_options(benchmark: Benchmark[Any, Any], path: Path, names: Iterable[str]) -> None:
    """Raises UserError for an option that the benchmark's grading does not accept."""
    known = {field.flag for field in options(benchmark.Grading or benchmark.Settings, "grade")}
    if strange := next((flag for name in names if (flag := name.replace("_", "-")) not in known), None):
        suggestion = did_you_mean(strange, known)
        raise UserError(f"--{strange} does not apply to {path}, a run of {benchmark.name}.{suggestion}")


def logs_of(paths: Sequence[Path], scorer: str | None) -> list[LoggedRun | None]:
    """The logs of other tools; None for a run's folder or a results file. Raises InputError."""
    return logged_runs([None if is_run(path) else path for path in paths], scorer)


def checked_report(path: Path, code: Code | None, options: Mapping[str, Any]) -> Report:
    """The report of a run or a results file. Raises UserError if nothing in it is graded."""
    if not is_run(path) or not (path / JOURNAL).is_file():
        report = graded_file(path, options).report
    else:
        benchmark = of_folder(path, code)
        report = graded_report(benchmark, path, options) if options else report_of(benchmark, path)
    if all(item.value is None for item in report.items):
        raise UserError(f"{path}: {' '.join(report.notes) or 'it contains no graded item'}")
    return report


def official_score(a: Path, b: Path, code: Code | None) -> Paired | None:
    """The official score of two runs; None if it is the mean of the items, or if the runs' data is missing."""
    if not (is_run(a) and is_run(b)):
        return None
    benchmark = of_folder(a, code)
    if of_folder(b, code).name != benchmark.name:
        return None
    try:
        return benchmark.paired(Run(a), Run(b))
    except UserError:  # the data is missing
        return None


def patients_of(run: Path, benchmark: Benchmark[Any, Any]) -> str:
    """The digest of the patients of a run over FHIR data; empty if it is unknown. A FHIR server is assumed to contain
    the data set's own patients.
    """
    from medagent.fhir_episodes.benchmark import FhirBenchmark

    settings = Run(run).settings
    if settings.get("ehr-digest") or not settings.get("fhir") or not isinstance(benchmark, FhirBenchmark):
        return str(settings.get("ehr-digest") or "")
    try:
        source = benchmark.source(Run(run), {}).model_copy(update={"ehr": None})
        return benchmark.patients(source, lambda _: None).digest
    except UserError:  # the data set comes without patients
        return ""


def other_patients(a: Path, b: Path, code: Code | None) -> tuple[str, str] | None:
    """The digests of the patients of two runs if these differ; otherwise None."""
    if not (is_run(a) and is_run(b)):
        return None
    first, second = (patients_of(path, of_folder(path, code)) for path in (a, b))
    return (first, second) if first and second and first != second else None


def official_scores(paths: Sequence[Path], code: Code | None) -> dict[tuple[int, int], Paired]:
    """The official scores of pairs of runs, by their places, if these are not means of items."""
    pairs = combinations(enumerate(paths), 2)
    paired = {(i, j): official_score(first, second, code) for (i, first), (j, second) in pairs}
    return {places: score for places, score in paired.items() if score is not None}


def are_siblings(a: Path, b: Path) -> bool:
    """Whether two runs use different data sets, at least one of them made from a seed, by their `run.json`. Raises
    UserError if these are data sets of different benchmarks.
    """
    runs = [_document(path) for path in (a, b)]
    first, second = (run.get("settings", {}) for run in runs)
    seed = first.get("seed-digest") or second.get("seed-digest")
    if not seed or first.get("tasks-digest") == second.get("tasks-digest"):
        return False
    names = [run.get("benchmark", DEFAULT) for run in runs]
    if names[0] != names[1]:
        raise UserError(f"{a} is a run of {names[0]}, and {b} one of {names[1]}; compare runs of one benchmark")
    return True


def _document(path: Path) -> Mapping[str, Any]:
    """The `run.json` of a run, or next to a results file; empty if there is none."""
    folder = path if path.is_dir() else path.parent
    return Run(folder).document if is_run(folder) else {}


def check_same_items(a: Path, b: Path, code: Code | None) -> None:
    """Raises UserError if two runs use the same ids for different questions."""
    if not (is_run(a) and is_run(b)):
        check_same_patients(a, b)
        return
    try:
        first, second = (_questions(path, code) for path in (a, b))
    except UserError:  # the data is missing
        return
    shared = [item for item in first if item in second]
    if differing := [item for item in shared if first[item] != second[item]]:
        raise UserError(
            f"{a} and {b} have different task sets: {len(differing)} of {len(shared)} items differ, the first is "
            f"{differing[0]!a}; compare runs over the same tasks"
        )


def check_logs(
    a: Path, b: Path, logs: Sequence[LoggedRun | None], code: Code | None, options: Mapping[str, Any]
) -> None:
    """Raises UserError if a log and a run, or two logs, are of different benchmarks or have other questions under an
    id.
    """
    first, second = logs
    if first is not None and second is not None and first.log.tool == second.log.tool:
        check_same_benchmark(a, b, first.log, second.log)
        return
    questions = [
        _asked(path, code, options) if log is None else log.questions for path, log in zip((a, b), logs, strict=True)
    ]
    check_same_questions(a, b, questions)


def _asked(path: Path, code: Code | None, options: Mapping[str, Any]) -> Mapping[str, str]:
    """The questions of a run or a results file by item; empty if the data is missing."""
    if not is_run(path):
        return {score.item.id: score.item.question for score in graded_file(path, options).scores}
    try:
        return _questions(path, code)
    except UserError:
        return {}


def _questions(folder: Path, code: Code | None) -> dict[str, str]:
    benchmark = of_folder(folder, code)
    return {item.id: item.question for item in benchmark.read_items(benchmark.source(Run(folder), {}))}


def result_of_file(path: Path, item: str, options: Mapping[str, Any]) -> ItemView:
    """An item of a results file of the default benchmark. Raises UserError if the file does not have it."""
    file = graded_file(path, options)
    for unit in file.units:
        if unit.row is not None and item in (unit.scored.unit, unit.scored.item.id):
            return item_view(find(DEFAULT), unit.scored, unit.row)
    raise UserError(f"{path}: does not contain item {item}")


def write_page(
    runs: Sequence[str | Path],
    out: str | Path,
    code: Code | None,
    scorer: str | None,
    options: Mapping[str, Any],
    *,
    with_patient_data: bool = False,
) -> int:
    """Write the HTML report of runs, of results files of MedAgentBench, or of other tools' logs. Returns its size in
    bytes.

    Without `with_patient_data`, a run over a hospital's own data shows scores only. Raises UserError.
    """
    from medagent.reports.page.render import render

    remember_environment(os.environ)
    paths = list(map(Path, runs))
    logs = logs_of(paths, scorer)
    with ExitStack() as stack:
        pages = [_page(path, log, code, options, stack) for path, log in zip(paths, logs, strict=True)]
        if not with_patient_data:
            pages = [_without_patient_data(page, path) for page, path in zip(pages, paths, strict=True)]
        names = [page.label for page in pages]
        if len(set(names)) < len(names):
            pages = [replace(page, label=str(path)) for page, path in zip(pages, paths, strict=True)]
        write_parts(followed(Path(out)), render(pages, official_scores(paths, code)))
    return Path(out).stat().st_size


def _without_patient_data(page: RunPage, path: Path) -> RunPage:
    """A page without the texts of a run over a hospital's own data."""
    return replace(page, report=shown_elsewhere(page.report, path), scores_only=has_patient_data(path))


def _page(
    path: Path, log: LoggedRun | None, code: Code | None, options: Mapping[str, Any], stack: ExitStack
) -> RunPage:
    """A run on a page. `stack` keeps its journals open, because rows are read while the page is written."""
    from medagent.reports.page.render import RunPage

    if log is not None:
        return RunPage(path.stem, log.report, LoggedBenchmark(), log.scores, log.units)
    if not is_run(path):
        file = graded_file(path, options, every_rule=True)
        label = path.stem if path.is_file() else path.name
        return RunPage(label, file.report, find(DEFAULT), file.scores, file.units)
    benchmark = of_folder(path, code)
    check_options(benchmark, path, options)
    journals = stack.enter_context(Journals.of_folder(path, benchmark.journals))
    if options:
        run = GradedRun(benchmark, path, journals, options, StoredScores())
    else:
        run = GradedRun(benchmark, path, journals, {}, StoredScores(path / SCORES), last_report(path, journals))
    return RunPage(path.resolve().name, run.report, benchmark, run.scores, run.units())
