"""`medagent compare`: two runs, paired by item."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from medagent.benchmarks.published import FileGrading
from medagent.terminal import options
from medagent.terminal.settings import fields_of, with_options

AsMarkdown = Annotated[
    bool, typer.Option("--markdown", help="Print Markdown for the summary of a CI job: lost items, with reasons.")
]
JunitFile = Annotated[
    Path | None, typer.Option("--junit", help="Write JUnit XML: each item is a test, and a lost item is a failed test.")
]
FailUnder = Annotated[
    float | None,
    typer.Option(
        min=-1,
        max=1,
        help="Exit with code 1 if a run's rate minus the first run's is below this; -0.02 allows a loss of two points.",
    ),
]


@with_options(fields_of(FileGrading, "tasks", "ehr", "key", "fhir"), defaults=False)
def command(
    facts: dict[str, Any],
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="A B …",
            help="Folders of runs, results files of MedAgentBench, or logs of Inspect, Harbor and lm-eval.",
        ),
    ],
    benchmark: options.BenchmarkCode = None,
    scorer: options.Scorer = None,
    full: Annotated[bool, typer.Option("--full", help="Name all items that are not compared.")] = False,
    as_json: options.AsJson = False,
    as_markdown: AsMarkdown = False,
    junit_file: JunitFile = None,
    fail_under: FailUnder = None,
) -> None:
    """Compare runs item by item: which items changed, and whether that is more than chance.

    Each further run is compared with the first. If two runs have different data sets, one of them from medagent data
    new, their rates are compared per task type instead: this shows how much of a score was memorised.

    Example: medagent compare results/v2_r1_gpt-4o-mini results/v2_r1_gpt-4o

    In CI: medagent compare baseline/ results/v2_ci_mine --markdown --junit compared.xml --fail-under -0.02
    """
    import medagent._api as api
    from medagent._finished import logs_of
    from medagent.core.errors import UserError
    from medagent.core.writing import followed, write_whole
    from medagent.engine.patient_data import shown_elsewhere
    from medagent.reports.compare_views import document, junit, markdown, print_compared

    if len(runs) < 2:
        raise UserError("pass at least two runs: medagent compare A B")
    if as_json and as_markdown:
        raise UserError("pass --json or --markdown, not both")
    first, *others = runs
    comparisons = api.compare_each(first, others, benchmark=benchmark, scorer=scorer, **facts)
    if as_markdown or junit_file is not None:
        logs = zip(others, logs_of(runs, scorer)[1:], strict=True)
        reports = {path: log.report if log else api.grade(path, benchmark=benchmark, **facts) for path, log in logs}
        reports = {path: shown_elsewhere(report, path) for path, report in reports.items()}
        if junit_file is not None:
            write_whole(followed(junit_file), junit(first, comparisons, reports))
        if as_markdown:
            print(markdown(first, comparisons, reports), end="")
    if as_json:
        print(document(comparisons))
    elif not as_markdown:
        print_compared(first, comparisons, full=full)
    if fail_under is not None and _under(first, comparisons, fail_under):
        raise typer.Exit(1)


def _under(first: Path, comparisons: dict[Path, Any], limit: float) -> bool:
    """Whether a run's difference to the first is below the limit; a warning names each such run."""
    from medagent.core.number_formats import difference
    from medagent.reports.tables import say

    under = {path: comparison.difference for path, comparison in comparisons.items() if comparison.difference < limit}
    for path, step in under.items():
        say(f"{path}: {difference(step)} compared with {first} is below --fail-under {limit:g}")
    return bool(under)
