"""The Python API: run a benchmark and get a `Report`, read a run's folder, grade, compare. Nothing is printed.

    report = await medagent.run("medagentbench", agent=MyAgent, limit=10)
    report = medagent.run_sync("medagentbench", model="gpt-4o-mini")
    report = medagent.run_sync("medagentbench", MedAgentBenchSettings(model="gpt-4o-mini"))

Options are the fields of the benchmark's settings, as on the command line (`max_tokens=…`). Configuration files are not
read. A settings object is the typed way: type checkers know its fields.
"""

from __future__ import annotations

import functools
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from medagent._finished import (
    Code,
    are_siblings,
    check_logs,
    check_options,
    check_same_items,
    checked_report,
    is_run,
    logs_of,
    official_score,
    other_patients,
    write_page,
)
from medagent.benchmarks.base import DEFAULT, find, find_fhir, of_folder
from medagent.core import plugins
from medagent.core.errors import UserError
from medagent.core.options import Setting, by_field, checked, stated
from medagent.core.options import options as options_of
from medagent.core.waiting import blocking
from medagent.engine.benchmark import Benchmark
from medagent.engine.folder import Journals, Run
from medagent.engine.plan import JOURNAL
from medagent.engine.report import ItemOutcome, ItemView, Report, ShownMessage
from medagent.engine.results import ScoredRun, graded_report, report_of, scores_of
from medagent.engine.rows import Row
from medagent.engine.run import execute
from medagent.engine.scores import SCORES, Score, Scored, StoredScores
from medagent.engine.settings import RunSettings
from medagent.fhir_episodes.episodes import EpisodeContext, EpisodeSource, open_episode
from medagent.fhir_episodes.http_episodes import HttpEpisodes, serve_on
from medagent.reports.compare import Comparison, SetComparison, compare_outcomes, compare_sets, other_pages
from medagent.reports.item_view import item_view
from medagent.reports.tool_logs import LoggedRun

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from medagent.fhir_episodes.settings import FhirSettings

S = TypeVar("S", bound=RunSettings)


async def run(
    benchmark: str | type[Benchmark[S, Any]] = DEFAULT,
    settings: S | None = None,
    *,
    verbose: bool | None = None,
    **options: Any,
) -> Report:
    """Run a benchmark and return its report. Repeat the call to continue a stopped run.

    `benchmark` is a name, an import path or a class. Pass the settings as a `settings` object, as options, or both:
    options replace fields of the object. The options `agent` and `model` may also be a class, a class with arguments
    (`functools.partial(MyAgent, shots=3)`), or an instance. `report.reused` is the number of units that were already
    finished. `verbose` (default: True in notebooks) prints progress and notes to standard error. Raises UserError,
    StopRunError.
    """
    from medagent.engine.progress import in_notebook
    from medagent.reports.power import noise_before
    from medagent.reports.tables import say

    resolved = find(benchmark)
    for name in ("agent", "model"):
        options |= _handed(name, options)
    chosen = _stated(resolved.Settings, settings, options)
    verbose = in_notebook() if verbose is None else verbose
    tell = say if verbose else _silent
    plan = await resolved.plan(chosen, tell)
    if verbose and (noise := noise_before(plan, resolved)):
        tell(noise)
    return await execute(plan, resolved, quiet=not verbose, say=tell)


def _handed(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options for a class or an instance that is passed as `agent` or `model`. Raises UserError."""
    handed = options.get(name)
    if handed is None or isinstance(handed, str):
        return {}
    if not isinstance(handed, functools.partial):
        return {name: plugins.given(handed)}
    if handed.args or not isinstance(handed.func, type):
        raise UserError(f"{name}: functools.partial must have a class and only keyword arguments")
    return {name: plugins.given(handed.func), f"{name}_arg": {**handed.keywords, **options.get(f"{name}_arg", {})}}


def run_sync(
    benchmark: str | type[Benchmark[S, Any]] = DEFAULT,
    settings: S | None = None,
    *,
    verbose: bool | None = None,
    **options: Any,
) -> Report:
    """`run` for programs without an event loop. If a loop runs (as in a notebook), it works in a separate thread."""
    work: Coroutine[Any, Any, Report] = run(benchmark, settings, verbose=verbose, **options)
    return blocking(work)


def episode(
    task: Any,
    *,
    key: str | None = None,
    benchmark: Code = DEFAULT,
    settings: FhirSettings | None = None,
    **options: Any,
) -> EpisodeContext:
    """An episode of a task (or of a task's id). Enter it with `async with` or `with`.

    Options, or `settings`, select the tasks and patients and the rules of the episode (`dataset`, `ehr`, `protocol`,
    `writes`, `max_rounds` …), as in `medagent run`. `key` is the seed of the ids that the server generates. Raises
    UserError for an unknown task or unusable data.
    """
    return open_episode(_source(benchmark, settings, options), task, key)


def tasks(
    *, benchmark: Code = DEFAULT, settings: FhirSettings | None = None, mixed: bool = False, **options: Any
) -> Sequence[Any]:
    """The tasks of a data set, selected by the options of `episode`. Raises UserError.

    `mixed`: in the order of a run, which takes the types in turn, so that the first few are a representative part.
    """
    source = _source(benchmark, settings, options)
    return [item.record for item in (source.mixed if mixed else source.items).values()]


def serve_episodes(
    *, host: str = "127.0.0.1", port: int = 0, benchmark: Code = DEFAULT, **options: Any
) -> AbstractContextManager[HttpEpisodes]:
    """Serve episodes over HTTP on a port (0: a free one), in a thread, until the block ends.

    Options are `api_base` and the options of `episode` that select tasks and patients. Raises UserError.
    """
    return serve_on(find_fhir(benchmark), host, port, options)


def grade(path: str | Path, *, benchmark: Code | None = None, scorer: str | None = None, **options: Any) -> Report:
    """Grade a run's folder again, or a results file. `options` are those of `medagent grade`.

    A log of another tool is reported as that tool scored it; `scorer` chooses one of several scorers. `benchmark` is
    the benchmark of a results file (default: MedAgentBench), or the code of a run's benchmark that is not installed.
    Nothing is written. Raises UserError, InputError.
    """
    place = Path(path)
    values = _set_ones(options)
    if (log := logs_of([place], scorer)[0]) is not None:
        return log.report
    if is_run(place) and (place / JOURNAL).is_file():
        resolved = of_folder(place, benchmark)
        check_options(resolved, place, values)
        return graded_report(resolved, place, values)
    resolved = find(benchmark or DEFAULT)
    check_options(resolved, place, values)
    return resolved.graded_file(place, values)


@dataclass(frozen=True, slots=True)
class LoadedRun:
    """A run's folder: its rows, report and items."""

    path: Path
    benchmark: Benchmark[Any, Any]

    @property
    def settings(self) -> dict[str, Setting]:
        """The settings that decide its rows, by option name."""
        return Run(self.path).settings

    def rows(self, journal: str = JOURNAL) -> Iterator[Row]:
        """The last row of every unit in a journal. Rows of FHIR benchmarks have the transcript."""
        return Run(self.path).rows(self.benchmark.journals[journal].row, journal)

    def transcripts(self) -> Iterator[tuple[str, Sequence[ShownMessage]]]:
        """Each unit's key with its messages, in order."""
        return ((row.unit, self.benchmark.messages(row)) for row in self.rows())

    @property
    def report(self) -> Report:
        """Its report, also while the run is in progress."""
        return report_of(self.benchmark, self.path)

    @property
    def scores(self) -> Sequence[Scored]:
        """Its units with their scores."""
        return scores_of(self.benchmark, self.path)

    def item(self, key: str) -> ItemView:
        """One item to show, by its id or its unit's key. Raises UserError if the run does not have it.

        Rows of other items are not read.
        """

        def is_of_item(unit: str) -> bool:
            return unit == key or unit.startswith(f"{key}#")

        reported = False
        with Journals.of_folder(self.path, self.benchmark.journals, is_of_item) as journals:
            run = Run(self.path, journals)
            try:
                stored = StoredScores(self.path / SCORES, only=is_of_item)
                known = ScoredRun(self.benchmark, self.path, journals, {})
                scored, judged = known.scores_by(self.benchmark.rule_sets[0], stored), known.judged or {}
            except UserError:  # the data is missing
                scored, judged, reported = list(self._reported()), {}, True
            scores = {unit.unit: unit for unit in scored if key in (unit.unit, unit.item.id)}
            row = next(run.rows(self.benchmark.row, units=[*scores][:1]), None)
        if row is None:
            raise UserError(f"{self.path}: does not contain item {key}")
        first, *others = scores
        view = item_view(self.benchmark, scores[first], row, judged.get(first), reported=reported)
        return replace(view, lines=[*view.lines, *([f"also: {', '.join(others)}"] if others else [])])

    def _reported(self) -> Iterator[Scored]:
        """Its units with the verdicts of its report, if there is one."""
        outcomes = {(item.item, item.trial): item for item in self.report.items}
        for row in self.rows():
            item, trial = self.benchmark.named(row.unit)
            outcome = outcomes.get((item.id, trial))
            yield Scored(item, trial, row.unit, row.status, None if outcome is None else _score_of(outcome))


def _score_of(outcome: ItemOutcome) -> Score | None:
    """The score of an outcome; None if it was not graded."""
    if outcome.value is None:
        return None
    return Score(
        value=outcome.value,
        correct=outcome.correct,
        kind=outcome.kind,
        reason=outcome.reason,
        because=outcome.because,
        grounded=outcome.grounded,
        reading=outcome.reading,
        harmed=outcome.harmed,
    )


def load_run(path: str | Path, *, benchmark: Code | None = None) -> LoadedRun:
    """Open a run's folder. `benchmark` is the code of its benchmark if that is not installed. Raises UserError."""
    return LoadedRun(Path(path), of_folder(Path(path), benchmark))


def compare(
    a: str | Path, b: str | Path, *, benchmark: Code | None = None, scorer: str | None = None, **options: Any
) -> Comparison | SetComparison:
    """Compare two runs, results files of MedAgentBench, or logs of Inspect, Harbor or lm-evaluation-harness, item by
    item. `scorer` chooses one of several scorers of a log.

    If they have different data sets, one of them made from a seed, their groups are compared. `options` are those of
    `medagent grade` that name the data. `benchmark` is the code of the runs' benchmark if that is not installed. Raises
    UserError if the two cannot be compared.
    """
    return compare_each(Path(a), [Path(b)], benchmark=benchmark, scorer=scorer, **options)[Path(b)]


def compare_each(
    first: Path, others: Sequence[Path], *, benchmark: Code | None = None, scorer: str | None = None, **options: Any
) -> dict[Path, Comparison | SetComparison]:
    """`compare` for each further run with the first. `scorer` may be a scorer of any of their logs."""
    paths, values = [first, *others], _set_ones(options)
    for path in paths:
        if is_run(path):
            check_options(of_folder(path, benchmark), path, values)
    logs = logs_of(paths, scorer)
    if scorer is not None and not any(logs):
        names = " and ".join(map(str, paths))
        raise UserError(f"--scorer chooses a score of another tool's log, but {names} are runs: leave it out")
    reports = [
        checked_report(path, benchmark, values) if log is None else log.report
        for path, log in zip(paths, logs, strict=True)
    ]
    return {
        path: _compared((first, path), (logs[0], log), (reports[0], report), benchmark, values)
        for path, log, report in zip(others, logs[1:], reports[1:], strict=True)
    }


def _compared(
    paths: tuple[Path, Path],
    logs: tuple[LoggedRun | None, LoggedRun | None],
    reports: tuple[Report, Report],
    benchmark: Code | None,
    options: Mapping[str, Any],
) -> Comparison | SetComparison:
    first, second = paths
    if any(logs):
        check_logs(first, second, logs, benchmark, options)
        return compare_outcomes(*(report.items for report in reports))
    if are_siblings(first, second):
        return compare_sets(*reports)
    check_same_items(first, second, benchmark)
    compared = compare_outcomes(*(report.items for report in reports))
    comparison = replace(compared, patients=other_patients(first, second, benchmark), pages=other_pages(*reports))
    return comparison if comparison.kind == "verdicts" else comparison.by(official_score(first, second, benchmark))


def write_report(
    runs: Sequence[str | Path],
    out: str | Path,
    *,
    benchmark: Code | None = None,
    scorer: str | None = None,
    with_patient_data: bool = False,
    **options: Any,
) -> int:
    """Write the HTML report of runs, of results files of MedAgentBench, or of other tools' logs. Returns its size in
    bytes.

    A run over a hospital's own data (`--writes private`) shows scores only, unless `with_patient_data` is set.

    `options` are those of `medagent grade` that name the data. `benchmark` is the code of the runs' benchmark if that
    is not installed. Raises UserError.
    """
    known = {name: value for name, value in options.items() if value is not None}
    return write_page(runs, out, benchmark, scorer, known, with_patient_data=with_patient_data)


def _stated(model: type[S], settings: RunSettings | None, options: Mapping[str, Any]) -> S:
    """The settings of a call. Raises UserError for invalid options, and for settings of another type."""
    if settings is None:
        return checked(model, options)
    if not isinstance(settings, model):
        raise UserError(f"settings: expected {model.__name__}, not {type(settings).__name__}")
    if not options:
        return settings
    return checked(type(settings), {**stated(settings), **by_field(options_of(model), options)})


def _source(benchmark: Code, settings: FhirSettings | None, options: Mapping[str, Any]) -> EpisodeSource:
    """The source of a call's episodes. Raises UserError."""
    resolved = find_fhir(benchmark)
    return EpisodeSource.by(resolved, _stated(resolved.Settings, settings, _set_ones(options)))


def _set_ones(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _silent(text: str) -> None:
    pass
