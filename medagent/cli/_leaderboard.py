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
    runs are ranked. Every run is graded again. An archive is checked first, as by `medagent submit check`. Refused
    archives are listed below the boards with their first problem, and the exit code is then 1. Archives whose episodes
    cannot be replayed are listed on separate boards.

    Example: medagent leaderboard results/v2_r2_* > results/leaderboard.md
    """
    from medagent._finished import is_run, logs_of, official_scores, patients_of
    from medagent.benchmarks.base import of_folder
    from medagent.core.errors import UserError
    from medagent.engine.folder import Run
    from medagent.engine.results import graded_report
    from medagent.reports.leaderboard import Entry, leaderboard
    from medagent.reports.tables import say

    entries: dict[Path, Entry] = {}
    refused: list[str] = []
    for run, log in zip(runs, logs_of(runs, scorer), strict=True):
        if is_run(run):
            known = of_folder(run, benchmark)
            items = len(known.read_items(known.source(Run(run), {})))
            entries[run] = Entry(graded_report(known, run, {}), items, patients_of(run, known))
        elif run.suffix == ".zip":
            entry = _of_pack(run, dataset)
            if isinstance(entry, str):
                refused.append(entry)
            else:
                entries[run] = entry
        elif log is not None:
            entries[run] = Entry(log.report, log.items)
        else:
            raise UserError(f"{run}: not a run's folder (run.json is missing)")
    print(leaderboard(list(entries.values()), official_scores(list(entries), benchmark), refused), end="")
    for problem in refused:
        say(f"medagent: {problem}")
    if refused:
        raise typer.Exit(1)


def _of_pack(pack: Path, dataset: str | None) -> Entry | str:
    """A leaderboard entry of an archive, or why it is refused."""
    from medagent.benchmarks.published import check_pack
    from medagent.core.errors import UserError
    from medagent.reports.leaderboard import Entry

    try:
        checked = check_pack(pack, dataset=dataset)
    except UserError as error:
        return str(error)
    if checked.report is None:
        return f"{pack}: {checked.problems[0]}; medagent submit check {pack} lists all problems"
    return Entry(checked.report, checked.tasks, checked.settings.ehr_digest or "", checked.checks)
