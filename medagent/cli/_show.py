"""`medagent show`: a summary of a run or of a results file, or one item with its verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from medagent.benchmarks.published import FileGrading
from medagent.terminal import options
from medagent.terminal.settings import fields_of, with_options


@with_options(fields_of(FileGrading, "tasks", "dataset", "fhir", "ehr", "key", "base", "rules"), defaults=False)
def command(
    values: dict[str, Any],
    run: Annotated[Path, typer.Argument(metavar="RUN|FILE", help="A run's folder, or a results file.")],
    item: Annotated[str | None, typer.Argument(metavar="[ID]", help="An item's id, or id#trial.")] = None,
    wrong: Annotated[bool, typer.Option("--wrong", help="List the wrong items, with the reasons.")] = False,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND",
            help="List the items with this kind of failure, e.g. 'data never read' or its key reading-missed; for "
            "right items without a reading, 'right without reading' (lucky); repeatable.",
        ),
    ] = None,
    type_: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="TYPE", help="List the items of this type or group; repeatable."),
    ] = None,
    benchmark: options.BenchmarkCode = None,
    finish_reason: Annotated[
        list[str] | None,
        typer.Option(
            metavar="REASON", help="List the items with a reply of this finish reason, e.g. length; repeatable."
        ),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Show an item's whole prompt and the JSON of Bundles.")] = False,
) -> None:
    """Show a summary of a run, finished or not, or one item: its messages, the verdict and the reasons.

    With --wrong, --kind, --type or --finish-reason, list the matching items, one line each. A results file is graded
    first; its options are those of `medagent grade`.

    Example: medagent show results/v2_r2_reference task5_7

    Example: medagent show results.json --wrong --tasks test_data_v2.json --ehr patients.ndjson
    """
    import medagent._api as api
    from medagent._finished import is_run, result_of_file
    from medagent.core.errors import UserError
    from medagent.reports.end import print_findings
    from medagent.reports.show import list_items, show_item, show_run

    filtered = wrong or kind or type_ or finish_reason
    if item is not None and filtered:
        raise UserError("pass an item's id, or --wrong, --kind, --type, --finish-reason to list items; not both")
    is_file = run.exists() and not is_run(run)
    if values and not is_file:
        raise UserError(f"--{next(iter(values))} applies to a results file, and {run} is a run; leave it out")
    if item is not None:
        view = result_of_file(run, item, values) if is_file else api.load_run(run, benchmark=benchmark).item(item)
        show_item(view, full=full)
        return
    report = _report(run, benchmark, values if is_file else None)
    if filtered:
        list_items(report, wrong=wrong, kinds=kind or (), groups=type_ or (), finish_reasons=finish_reason or ())
    elif is_file:
        print_findings(report, full=full)
    else:
        show_run(report)


def _report(run: Path, benchmark: str | None, options: dict[str, Any] | None) -> Any:
    """The report of a results file, which is graded by these options, or of a run (None)."""
    import medagent._api as api
    from medagent.engine.report import STORED
    from medagent.reports.tables import say

    if options is not None:
        return api.grade(run, benchmark=benchmark, **options)
    report = api.load_run(run, benchmark=benchmark).report
    if reason := report.details.get(STORED):
        say(f"medagent: shown is the stored report, because the run's data cannot be read: {reason}")
    return report
