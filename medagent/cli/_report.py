"""`medagent report`: one HTML file about a run, or about several side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from medagent.benchmarks.published import FileGrading
from medagent.terminal import options
from medagent.terminal.settings import fields_of, with_options


@with_options(fields_of(FileGrading, "tasks", "dataset", "fhir", "ehr", "key", "base"), defaults=False)
def command(
    values: dict[str, Any],
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN…", help="Folders of runs, MedAgentBench results files, or logs of other tools."),
    ],
    out: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")] = Path("report.html"),
    benchmark: options.BenchmarkCode = None,
    with_patient_data: options.WithPatientData = False,
    scorer: options.Scorer = None,
    opened: Annotated[bool, typer.Option("--open", help="Open the file in the browser.")] = False,
) -> None:
    """Write one HTML file that shows why each item is right or wrong. It works without a server and without a network.

    Several runs of one benchmark are each compared with the first. The MedAgentBench options are the options of
    grading.

    Example: medagent report results/v2_r2_reference -o report.html --open
    """
    import medagent._api as api
    from medagent.reports.tables import put

    size = api.write_report(
        runs, out, benchmark=benchmark, scorer=scorer, with_patient_data=with_patient_data, **values
    )
    put(f"{out}: {size / 1e6:.1f} MB")
    if opened:
        import webbrowser

        webbrowser.open(out.resolve().as_uri())
