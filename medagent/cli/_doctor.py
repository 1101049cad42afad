"""`medagent doctor`: checks that a run has everything it needs, and prints what to do about each problem."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from medagent.cli import _server_options as server_options
from medagent.engine.settings import RunSettings
from medagent.terminal.settings import fields_of, with_options


@with_options(fields_of(RunSettings, "model", "base_url", "api", "results_dir"))
def command(
    values: dict[str, Any],
    fhir: Annotated[str | None, typer.Option(help="Also check the FHIR server at this base URL.")] = None,
    fhir_header: server_options.FhirHeader = None,
    ca_file: server_options.CaFile = None,
    price: Annotated[
        list[str] | None,
        typer.Option(help="Also print the line of the price table for this model; repeatable."),
    ] = None,
) -> None:
    """Check this installation: one line per check, ok or what to do. Exit code 1 if a check fails.

    With --model, the model is called once, for one token.

    Example: medagent doctor --fhir http://localhost:8080/fhir --model gpt-4o-mini --price gpt-4o-mini
    """
    from medagent.cli._examine import examine
    from medagent.core.options import checked
    from medagent.reports.tables import put

    server = server_options.open_server(fhir, fhir_header, ca_file) if fhir else None
    limits = {"max_tokens": 1 if values.get("api", "chat") == "chat" else 16, "timeout": 60.0}
    settings = checked(RunSettings, {**values, **limits})
    well = True
    for check in examine(server, settings.chat, settings.results_dir, price or ()):
        put(f"{'ok  ' if check.ok else 'FAIL'} {check.name}: {check.text}")
        well = well and check.ok
    raise typer.Exit(0 if well else 1)
