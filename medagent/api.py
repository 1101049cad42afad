"""The Python API: run a benchmark and get a `Report`, read a run's folder, grade, compare. Nothing is printed.

    report = await medagent.run("medagentbench", agent=MyAgent, limit=10)
    report = medagent.run_sync("medagentbench", model="gpt-4o-mini")

Options are the fields of the benchmark's settings, as on the command line (`max_tokens=…`); configuration files are
not read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medagent.benchmarks.base import DEFAULT, find, of_folder
from medagent.core import plugins
from medagent.core.errors import UserError
from medagent.core.options import Setting, checked
from medagent.core.scrub import remember_environment
from medagent.core.waiting import blocking
from medagent.engine.benchmark import Benchmark
from medagent.engine.journals import Run
from medagent.engine.plan import JOURNAL
from medagent.engine.report import ItemOutcome, ItemView, Report, ShownMessage
from medagent.engine.results import graded_report, report_of, scores_of
from medagent.engine.rows import Row
from medagent.engine.run import execute
from medagent.engine.scores import Scored
from medagent.fhir_episodes.benchmark import FhirBenchmark
from medagent.fhir_episodes.episodes import EpisodeContext, EpisodeSource, open_episode
from medagent.fhir_episodes.http_episodes import HttpEpisodes, serve_on
from medagent.reports.compare import Comparison, ScoreComparison, compare_outcomes
from medagent.reports.item_view import item_view
from medagent.reports.siblings import SetComparison, compare_sets

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from medagent.reports.page.document import RunPage

Code = str | type[Benchmark[Any, Any]]
"""The code of a benchmark: an import path, or a class."""


async def run(
    benchmark: str | type[Benchmark[Any, Any]] = DEFAULT, *, verbose: bool | None = None, **options: Any
) -> Report:
    """Run a benchmark and return what came of it; the same call again continues.

    `benchmark` is a name, an import path or a class; `agent` and `model` may be classes as well. With `verbose`, the
    default in notebooks, progress and notes go to standard error. Raises UserError, StopRunError.
    """
    from medagent.engine.progress import in_notebook
    from medagent.reports.tables import say

    found = find(benchmark)
    for name in ("agent", "model"):
        if isinstance(options.get(name), type):
            options[name] = plugins.given(options[name])
    settings = checked(found.Settings, options)
    verbose = in_notebook() if verbose is None else verbose
    tell = say if verbose else _silent
    plan = await found.plan(settings, tell)
    return await execute(plan, found, quiet=not verbose, say=tell)


def run_sync(
    benchmark: str | type[Benchmark[Any, Any]] = DEFAULT, *, verbose: bool | None = None, **options: Any
) -> Report:
    """`run` for programs without an event loop; inside a running one (a notebook's) it runs in a thread of its own."""
    return blocking(run(benchmark, verbose=verbose, **options))


def episode(
    task: Any, *, key: str | None = None, benchmark: str | type[Benchmark[Any, Any]] = DEFAULT, **options: Any
) -> EpisodeContext:
    """An episode of a task (or of its id), to be entered by `async with` or `with`.

    Options say which tasks and patients, and how the episode goes (`dataset`, `ehr`, `protocol`, `writes`,
    `max_rounds` …), as in `medagent run`; `key` seeds the ids that the server makes up. Raises UserError for an unknown
    task or data that cannot be used.
    """
    return open_episode(EpisodeSource.of(_fhir(benchmark), options), task, key)


def tasks(*, benchmark: str | type[Benchmark[Any, Any]] = DEFAULT, **options: Any) -> Sequence[Any]:
    """The tasks of a data set; options as `episode` has them. Raises UserError."""
    return [item.record for item in EpisodeSource.of(_fhir(benchmark), options).items.values()]


def serve_episodes(
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    benchmark: str | type[Benchmark[Any, Any]] = DEFAULT,
    **options: Any,
) -> AbstractContextManager[HttpEpisodes]:
    """Answer for episodes on a port (0: a free one), in a thread, while the block runs.

    Options are those of `episode` that name tasks and patients, and `api_base`. Raises UserError.
    """
    return serve_on(_fhir(benchmark), host, port, options)


def grade(path: str | Path, *, benchmark: Code | None = None, **given: Any) -> Report:
    """Grade a run's folder again, or a results file of MedAgentBench; `given` are options of `medagent grade`.

    `benchmark` is the code of a run whose benchmark is not installed. Nothing is written. Raises UserError, InputError.
    """
    place = Path(path)
    options = {name: value for name, value in given.items() if value is not None}
    if is_run(place) and (place / JOURNAL).is_file():
        found = of_folder(place, benchmark)
        _check_options(found, place, options)
        return graded_report(found, place, options)
    report: Report = _graded_file(place, options).report
    return report


@dataclass(frozen=True, slots=True)
class LoadedRun:
    """A run's folder, read: its rows, its report, its items."""

    path: Path
    benchmark: Benchmark[Any, Any]

    @property
    def settings(self) -> dict[str, Setting]:
        """What decided its rows, by option."""
        return Run(self.path).settings

    def rows(self, journal: str = JOURNAL) -> Iterator[Row]:
        """The last row of every unit of a journal; those of benchmarks with FHIR sessions have the transcript."""
        return Run(self.path).rows(self.benchmark.journals[journal].row, journal)

    def transcripts(self) -> Iterator[tuple[str, Sequence[ShownMessage]]]:
        """Each unit's key with what was said in it, in order."""
        return ((row.unit, self.benchmark.messages(row)) for row in self.rows())

    @property
    def report(self) -> Report:
        """What it came to, also while it is going on."""
        return report_of(self.benchmark, self.path)

    @property
    def scores(self) -> Sequence[Scored]:
        """Its units with their scores."""
        return scores_of(self.benchmark, self.path, {})

    def item(self, key: str) -> ItemView:
        """One item for reading, by its id or its unit's key. Raises UserError if the run does not have it."""
        try:
            scores = {one.unit: one for one in self.scores}
        except UserError:  # the data is not there any more
            scores = {one.item: Scored(*self.benchmark.named(one.item), one.item, one.status) for one in self._known()}
        units = [unit for unit in scores if key in (unit, scores[unit].item.id)]
        row = next(Run(self.path).rows(self.benchmark.row, units=units[:1]), None)
        if row is None:
            raise UserError(f"{self.path}: has no item {key}")
        view = item_view(self.benchmark, scores[units[0]], row)
        return replace(view, lines=[*view.lines, *([f"also: {', '.join(units[1:])}"] if units[1:] else [])])

    def _known(self) -> Iterator[ItemOutcome]:
        return (ItemOutcome(item=row.unit, status=row.status) for row in self.rows())


def load_run(path: str | Path, *, benchmark: Code | None = None) -> LoadedRun:
    """A run's folder. `benchmark` is the code of a run whose benchmark is not installed. Raises UserError."""
    return LoadedRun(Path(path), of_folder(Path(path), benchmark))


def compare(
    a: str | Path, b: str | Path, *, benchmark: Code | None = None, **given: Any
) -> Comparison | ScoreComparison | SetComparison:
    """Two runs, or results files of MedAgentBench, paired by item; by group if they are over different sets of which
    one was made from a seed.

    `given` are options of `medagent grade` that say where data is, `benchmark` the code of runs whose benchmark is not
    installed. Raises UserError if the two do not fit.
    """
    first, second = Path(a), Path(b)
    options = {name: value for name, value in given.items() if value is not None}
    for path in (first, second):
        if is_run(path):
            _check_options(of_folder(path, benchmark), path, options)
    outcomes = [_outcomes(path, benchmark, options) for path in (first, second)]
    if _are_siblings(first, second):
        return compare_sets(*outcomes)
    _check_same_items(first, second, benchmark)
    return compare_outcomes(*outcomes)


def write_report(runs: Sequence[str | Path], out: str | Path, *, benchmark: Code | None = None, **given: Any) -> int:
    """Write the HTML report of runs, or results files of MedAgentBench, and give its size in bytes.

    `given` are options of `medagent grade` that say where data is, `benchmark` the code of runs whose benchmark is not
    installed. Raises UserError.
    """
    from medagent.engine.files import write_whole
    from medagent.reports.page.render import render

    remember_environment(os.environ)
    options = {name: value for name, value in given.items() if value is not None}
    pages = [_page(Path(run), benchmark, options) for run in runs]
    names = [page.label for page in pages]
    if len(set(names)) < len(names):
        pages = [replace(page, label=str(run)) for page, run in zip(pages, runs, strict=True)]
    text = render(pages)
    write_whole(Path(out), text)
    return len(text.encode("utf-8", "surrogatepass"))


def _page(path: Path, code: Code | None, given: dict[str, Any]) -> RunPage:
    from medagent.reports.page.document import RunPage
    from medagent.reports.page.run_page import RowsByUnit, details_of

    if not is_run(path):
        file = _graded_file(path, given, every_rule=True)
        details = details_of(find(DEFAULT), file.report, file.scores, file.rows, file.others)
        return RunPage(path.stem if path.is_file() else path.name, file.report, details)
    benchmark = of_folder(path, code)
    _check_options(benchmark, path, given)
    report = graded_report(benchmark, path, given) if given else report_of(benchmark, path)
    scores = scores_of(benchmark, path, given)
    others = {name: scores_of(benchmark, path, given, name) for name in benchmark.rule_sets[1:]}
    details = details_of(benchmark, report, scores, RowsByUnit(benchmark, Run(path)), others)
    return RunPage(path.resolve().name, report, details)


def is_run(path: Path) -> bool:
    """Whether a path is a run's folder."""
    return (path / "run.json").is_file()


def _fhir(benchmark: str | type[Benchmark[Any, Any]]) -> FhirBenchmark[Any]:
    found = find(benchmark)
    if not isinstance(found, FhirBenchmark):
        raise UserError(f"{found.name}: has no episodes on a FHIR server")
    return found


def _check_options(benchmark: Benchmark[Any, Any], path: Path, given: Mapping[str, Any]) -> None:
    """Raises UserError for an option that the benchmark of a run does not have."""
    for name in given:
        if name not in benchmark.GradeOptions.model_fields:
            raise UserError(f"--{name.replace('_', '-')} has no use for {path}, a run of {benchmark.name}")


def _graded_file(path: Path, given: Mapping[str, Any], *, every_rule: bool = False) -> Any:
    """A results file, graded. Raises UserError, InputError."""
    from medagent.benchmarks.medagentbench.results_file import graded_file
    from medagent.benchmarks.medagentbench.settings import MedAgentBenchGrading

    return graded_file(path, checked(MedAgentBenchGrading, given), every_rule=every_rule)


def _outcomes(path: Path, code: Code | None, given: Mapping[str, Any]) -> Sequence[ItemOutcome]:
    if not is_run(path) or not (path / JOURNAL).is_file():
        report = _graded_file(path, given).report
    else:
        benchmark = of_folder(path, code)
        report = graded_report(benchmark, path, given) if given else report_of(benchmark, path)
    if all(item.value is None for item in report.items):
        raise UserError(f"{path}: {' '.join(report.notes) or 'nothing in it is graded'}")
    items: Sequence[ItemOutcome] = report.items
    return items


def _are_siblings(a: Path, b: Path) -> bool:
    """Whether two runs are over different sets of which at least one was made from a seed, as their `run.json` say."""
    first, second = (_settings(path) for path in (a, b))
    made = first.get("seed-digest") or second.get("seed-digest")
    return bool(made) and first.get("tasks-digest") != second.get("tasks-digest")


def _settings(path: Path) -> Mapping[str, Setting]:
    folder = path if path.is_dir() else path.parent
    return Run(folder).settings if is_run(folder) else {}


def _check_same_items(a: Path, b: Path, code: Code | None) -> None:
    """Raises UserError if two runs ask other things under the same ids."""
    if not (is_run(a) and is_run(b)):
        from medagent.benchmarks.medagentbench.results.patients import check_same_patients

        check_same_patients(a, b)
        return
    try:
        first, second = (_questions(path, code) for path in (a, b))
    except UserError:  # the data is not there any more
        return
    shared = [item for item in first if item in second]
    if differing := [item for item in shared if first[item] != second[item]]:
        raise UserError(
            f"{a} and {b} are over different task sets: {len(differing)} of {len(shared)} items ask something else, "
            f"first {differing[0]!a}"
        )


def _questions(folder: Path, code: Code | None) -> dict[str, str]:
    benchmark = of_folder(folder, code)
    return {item.id: item.question for item in benchmark.items(benchmark.source(Run(folder), {}))}


def _silent(text: str) -> None:
    pass
