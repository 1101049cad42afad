"""The Python API: run a benchmark and get a `Report`, read a run's folder, grade, compare. Nothing is printed.

    report = await medagent.run("medagentbench", agent=MyAgent, limit=10)
    report = medagent.run_sync("medagentbench", model="gpt-4o-mini")

Options are the fields of the benchmark's settings, as on the command line (`max_tokens=…`); configuration files are
not read.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from medagent.benchmarks.base import DEFAULT, Benchmark, find, of_folder
from medagent.core import plugins
from medagent.core.errors import UserError
from medagent.core.options import Setting, checked
from medagent.core.scrub import remember_environment
from medagent.engine.folder import benchmark_of
from medagent.engine.journals import Run
from medagent.engine.plan import JOURNAL
from medagent.engine.report import ItemOutcome, ItemView, Report, ShownMessage
from medagent.engine.rows import Row
from medagent.engine.run import Findings, execute, graded, report_of
from medagent.reports.compare import Comparison, ScoreComparison, compare_outcomes
from medagent.reports.siblings import SetComparison, compare_sets

if TYPE_CHECKING:
    from medagent.reports.page.document import RunPage

T = TypeVar("T")
Code = str | type[Benchmark]
"""The code of a benchmark: an import path, or a class."""


async def run(benchmark: str | type[Benchmark] = DEFAULT, *, verbose: bool = False, **options: Any) -> Report:
    """Run a benchmark and return what came of it; the same call again continues.

    `benchmark` is a name, an import path or a class; `agent` and `model` may be classes as well. With `verbose`,
    progress and notes go to standard error. Raises UserError, StopRunError.
    """
    from medagent.reports.tables import say

    found = find(benchmark)
    for name in ("agent", "model"):
        if isinstance(options.get(name), type):
            options[name] = plugins.given(options[name])
    settings = checked(found.Settings, options)
    tell = say if verbose else _silent
    plan = await found.plan(settings, tell)
    return await execute(plan, found, quiet=not verbose, say=tell)


def run_sync(benchmark: str | type[Benchmark] = DEFAULT, *, verbose: bool = False, **options: Any) -> Report:
    """`run` for programs without an event loop; inside a running one (a notebook's) it runs in a thread of its own."""
    return blocking(run(benchmark, verbose=verbose, **options))


def blocking(work: Coroutine[Any, Any, T]) -> T:
    """What a coroutine gives, for programs without an event loop; inside a running one a thread of its own waits."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    done: list[T] = []
    failed: list[BaseException] = []

    def inside() -> None:
        try:
            done.append(asyncio.run(work))
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=inside, name="medagent-run")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return done[0]


def grade(path: str | Path, *, benchmark: Code | None = None, **wanted: Any) -> Report:
    """Grade a run's folder anew, or a results file of MedAgentBench (`tasks`, `dataset`, `fhir`, `ehr`, `key`, `base`,
    `rules`, `side_by_side`, `official` as `medagent grade` has them). Nothing is written. Raises UserError, InputError.

    `benchmark` is the code of a run whose benchmark is not installed: an import path or a class.
    """
    place = Path(path)
    if is_run(place) and benchmark_of(place) != DEFAULT:
        return graded(of_folder(place, benchmark), place)
    from medagent.benchmarks.medagentbench.regrade import regrade, regraded_file, wanted_of
    from medagent.benchmarks.medagentbench.results.folder import results_of

    how = wanted_of(wanted)
    if not is_run(place) or not (place / JOURNAL).is_file():
        return regraded_file(place, how)

    def as_wanted(run: Run) -> Findings:
        with results_of(run, how.tasks) as (folder, _):  # a run that is going on, or was killed, has no results yet
            return regrade(folder, how)[0]

    return graded(of_folder(place), place, as_wanted)


@dataclass(frozen=True, slots=True)
class LoadedRun:
    """A run's folder, read: its rows, its report, its items."""

    path: Path
    benchmark: Benchmark

    @property
    def settings(self) -> dict[str, Setting]:
        """What decided its rows, by option."""
        return Run(self.path).settings

    def rows(self, journal: str = JOURNAL) -> Iterator[Row]:
        """The last row of every unit of a journal; MedAgentBench's have the transcript."""
        return Run(self.path).rows(self.benchmark.journals[journal].row, journal)

    def transcripts(self) -> Iterator[tuple[str, Sequence[ShownMessage]]]:
        """Each unit's key with what was said in it, in order."""
        return ((row.unit, self.benchmark.messages(row)) for row in self.rows())

    @property
    def report(self) -> Report:
        """What it came to, also while it is going on."""
        return report_of(self.benchmark, self.path)

    def item(self, key: str) -> ItemView:
        """One item for reading: what was said, and what came of it."""
        return self.benchmark.show(Run(self.path), key)


def load_run(path: str | Path, *, benchmark: Code | None = None) -> LoadedRun:
    """A run's folder. `benchmark` is the code of a run whose benchmark is not installed. Raises UserError."""
    return LoadedRun(Path(path), of_folder(Path(path), benchmark))


def compare(
    a: str | Path, b: str | Path, *, benchmark: Code | None = None, **facts: str | Path | None
) -> Comparison | ScoreComparison | SetComparison:
    """Two runs, or results files of MedAgentBench, paired by item; by task type where they are over different sets
    of which one was made from a seed.

    `facts` (`tasks`, `ehr`, `key`, `fhir` as `grade` has them) are MedAgentBench's, where files do not say them.
    `benchmark` is the code of runs whose benchmark is not installed. Raises UserError where the two do not fit.
    """
    first, second = Path(a), Path(b)
    given = {name: value for name, value in facts.items() if value is not None}
    if _is_medagentbench(first) and _is_medagentbench(second):
        from medagent.benchmarks.medagentbench.results.verdicts import are_siblings, check_same_tasks

        if are_siblings(first, second):
            return compare_sets(_outcomes(first, None, given), _outcomes(second, None, given))
        check_same_tasks(first, second)
    elif given:
        raise UserError(f"--{next(iter(given))} is about runs of MedAgentBench")
    return compare_outcomes(_outcomes(first, benchmark, given), _outcomes(second, benchmark, given))


def write_report(runs: Sequence[str | Path], out: str | Path, *, benchmark: Code | None = None, **wanted: Any) -> int:
    """Write the HTML report of runs, or results files of MedAgentBench, and give its size in bytes.

    `wanted` says where tasks and facts are, as `medagent grade` has it; it is about MedAgentBench. `benchmark` is the
    code of runs whose benchmark is not installed. Raises UserError.
    """
    from medagent.engine.files import write_whole
    from medagent.reports.page.render import render

    remember_environment(os.environ)
    pages = [_page(Path(run), benchmark, wanted) for run in runs]
    names = [page.label for page in pages]
    if len(set(names)) < len(names):
        pages = [replace(page, label=str(run)) for page, run in zip(pages, runs, strict=True)]
    text = render(pages)
    write_whole(Path(out), text)
    return len(text.encode("utf-8", "surrogatepass"))


def _page(path: Path, code: Code | None, wanted: dict[str, Any]) -> RunPage:
    from medagent.reports.page.document import RunPage

    if not is_run(path):
        from medagent.benchmarks.medagentbench.views.sources import file_details
        from medagent.benchmarks.medagentbench.wanted import Wanted

        return RunPage(path.stem if path.is_file() else path.name, *file_details(path, Wanted(**wanted)))
    benchmark = of_folder(path, code)
    if wanted and benchmark.name != DEFAULT:
        raise UserError(f"--{next(iter(wanted))} has no use for {path}, a run of {benchmark.name}")
    report = report_of(benchmark, path)
    return RunPage(path.resolve().name, report, benchmark.details(Run(path), report, **wanted))


def is_run(path: Path) -> bool:
    """Whether a path is a run's folder."""
    return (path / "run.json").is_file()


def _is_medagentbench(path: Path) -> bool:
    return not is_run(path) or benchmark_of(path) == DEFAULT


def _outcomes(path: Path, code: Code | None, given: Mapping[str, str | Path]) -> Sequence[ItemOutcome]:
    if not _is_medagentbench(path):
        report = report_of(of_folder(path, code), path)
        if all(item.value is None for item in report.items):
            raise UserError(f"{path}: {' '.join(report.notes) or 'nothing in it is graded'}")
        return report.items
    from medagent.benchmarks.medagentbench.regrade import regrade, wanted_of
    from medagent.benchmarks.medagentbench.results.verdicts import outcomes_of

    return regrade(path, wanted_of(given))[0].items if given else outcomes_of(path)


def _silent(text: str) -> None:
    pass
