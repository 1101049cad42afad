"""`medagent doctor`: checks that a run has everything it needs, and prints what to do about each problem."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medagent.cli import _server_options as server_options
from medagent.terminal import options


def command(
    fhir: Annotated[str | None, typer.Option(help="Also check the FHIR server at this base URL.")] = None,
    fhir_header: server_options.FhirHeader = None,
    ca_file: server_options.CaFile = None,
    model: options.ModelName = None,
    base_url: options.BaseUrls = None,
    api: options.Api = "chat",
    price: Annotated[
        list[str] | None,
        typer.Option(help="Also print the price of this model, and where it is from; repeatable."),
    ] = None,
    results_dir: options.ResultsDir = Path("results"),
) -> None:
    """Check this installation: one line per check, ok or what to do. Exit code 1 if a check fails.

    With --model, the model is called once, for one token.

    Example: medagent doctor --fhir http://localhost:8080/fhir --model gpt-4o-mini --price gpt-4o-mini
    """
    from medagent.cli._examine import examine
    from medagent.reports.tables import put

    server = server_options.open_server(fhir, fhir_header, ca_file) if fhir else None
    settings = options.model_settings(model, base_url, api=api, max_tokens=1 if api == "chat" else 16, timeout=60.0)
    well = True
    for check in examine(server, settings, results_dir, price or ()):
        put(f"{'ok  ' if check.ok else 'FAIL'} {check.name}: {check.text}")
        well = well and check.ok
    raise typer.Exit(0 if well else 1)
