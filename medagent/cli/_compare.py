"""`medagent compare`: two runs, paired by item."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from medagent.benchmarks.medagentbench.settings import MedAgentBenchGrading
from medagent.terminal import options
from medagent.terminal.settings import fields_of, with_options

AsMarkdown = Annotated[
    bool, typer.Option("--markdown", help="Print Markdown, for a summary of a CI run: what was lost, and why.")
]
JunitFile = Annotated[
    Path | None, typer.Option("--junit", help="Write JUnit XML: an item is a test, and one that was lost has failed.")
]
FailUnder = Annotated[
    float | None,
    typer.Option(
        min=-1,
        max=1,
        help="Exit code 1 where a run's rate less the first run's is under this: -0.02 allows two points.",
    ),
]


@with_options(fields_of(MedAgentBenchGrading, "tasks", "ehr", "key", "fhir"))
def command(
    facts: dict[str, Any],
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="A B …",
            help="Runs' folders, or results files of MedAgentBench, over the same items or over sibling sets.",
        ),
    ],
    benchmark: options.BenchmarkCode = None,
    as_json: options.AsJson = False,
    as_markdown: AsMarkdown = False,
    junit_file: JunitFile = None,
    fail_under: FailUnder = None,
) -> None:
    """Compare runs item by item: who flipped, and whether that is more than chance. Of three or more, each with the
    first.

    Over two data sets, one of them made by medagent data new, rates are compared by task type instead: how much of a
    score was learnt by heart.

    Example: medagent compare results/v2_r1_gpt-4o-mini results/v2_r1_gpt-4o

    In CI: medagent compare baseline/ results/v2_ci_mine --markdown --junit compared.xml --fail-under -0.02
    """
    import medagent._api as api
    from medagent.core.errors import UserError
    from medagent.engine.files import write_whole
    from medagent.reports.compare_table import document
    from medagent.reports.compare_views import junit, markdown, with_reports

    if len(runs) < 2:
        raise UserError("compare takes two runs or more")
    if as_json and as_markdown:
        raise UserError("--json and --markdown are two forms of the same; choose one")
    first, *others = runs
    comparisons = {other: api.compare(first, other, benchmark=benchmark, **facts) for other in others}
    if as_markdown or junit_file is not None:
        compared = with_reports(
            comparisons, {other: api.grade(other, benchmark=benchmark, **facts) for other in comparisons}
        )
        if junit_file is not None:
            write_whole(junit_file, junit(first, compared))
        if as_markdown:
            print(markdown(first, compared), end="")
    if as_json:
        print(document(list(comparisons.values())))
    elif not as_markdown:
        _print(first, comparisons)
    if fail_under is not None and _under(first, comparisons, fail_under):
        raise typer.Exit(1)


def _under(first: Path, comparisons: dict[Path, Any], limit: float) -> bool:
    """Whether a run's difference to the first is under the limit; each that is, is named."""
    from medagent.engine.figures import percent
    from medagent.reports.tables import say

    under = {other: one.difference for other, one in comparisons.items() if one.difference < limit}
    for other, difference in under.items():
        say(f"{other}: {percent(difference)} against {first} is under --fail-under {limit:g}")
    return bool(under)


def _print(first: Path, comparisons: dict[Path, Any]) -> None:
    from medagent.reports.compare_table import print_comparison, print_comparisons
    from medagent.reports.siblings import SetComparison, print_sets

    paired = {other: one for other, one in comparisons.items() if not isinstance(one, SetComparison)}
    for other, one in comparisons.items():
        if isinstance(one, SetComparison):
            print_sets(first, other, one)
    if len(paired) == 1:
        print_comparison(first, *paired.popitem())
    elif paired:
        print_comparisons(first, list(paired), list(paired.values()))
