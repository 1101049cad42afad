"""`medagent leaderboard`: the scores of runs as a Markdown table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from medagent.terminal import options

if TYPE_CHECKING:
    from medagent.reports.leaderboard import Entry


def command(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN …", help="Folders of runs, archives from `medagent submit pack`, or logs of other tools."
        ),
    ],
    benchmark: options.BenchmarkCode = None,
    scorer: options.Scorer = None,
    dataset: Annotated[
        str | None, typer.Option(help="The folder of the archives' data set, if that set is not installed.")
    ] = None,
) -> None:
    """Print the scores of runs as Markdown, with a board for each group of runs that can be compared.

    A board is one benchmark, data set, set of patients, rule set, protocol and set of limits. Only complete
    runs are ranked. Every run is graded again. An archive is checked first, as by `medagent submit check`, and a wrong
    one is refused. Archives whose episodes cannot be replayed are listed on separate boards.

    Example: medagent leaderboard results/v2_r2_* > results/leaderboard.md
    """
    from medagent._finished import is_run, logs_of, official_scores, patients_of
    from medagent.benchmarks.base import of_folder
    from medagent.core.errors import UserError
    from medagent.engine.folder import Run
    from medagent.engine.results import graded_report
    from medagent.reports.leaderboard import Entry, leaderboard

    entries = []
    for run, log in zip(runs, logs_of(runs, scorer), strict=True):
        if is_run(run):
            known = of_folder(run, benchmark)
            items = len(known.items(known.source(Run(run), {})))
            entries.append(Entry(graded_report(known, run, {}), items, patients_of(run, known)))
        elif run.suffix == ".zip":
            entries.append(_of_pack(run, dataset))
        elif log is not None:
            entries.append(Entry(log.report, log.items))
        else:
            raise UserError(f"{run}: not a run's folder (run.json is missing)")
    print(leaderboard(entries, official_scores(runs, benchmark)), end="")


def _of_pack(pack: Path, dataset: str | None) -> Entry:
    """A leaderboard entry of an archive. Raises UserError if the check finds a problem."""
    from medagent.benchmarks.medagentbench.submission.check import check
    from medagent.core.errors import UserError
    from medagent.reports.leaderboard import Entry

    checked = check(pack, dataset=dataset)
    if checked.report is None:
        raise UserError(f"{pack}: {checked.problems[0]}; medagent submit check {pack} lists all problems")
    return Entry(checked.report, checked.tasks, checked.settings.ehr_digest or "", checked.checks)
