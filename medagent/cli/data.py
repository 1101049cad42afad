"""`medagent data`: what data there is, and getting it: built, imported, or pushed into another server."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from medagent.cli import server_options
from medagent.cli.data_import import data_import

app = typer.Typer(
    help=("The data sets and the bundled hospital. Without a subcommand: list what there is.\n\nExample: medagent data")
)
app.command("import")(data_import)


@app.callback(invoke_without_command=True)
def list_data(context: typer.Context) -> None:
    """List the data sets, and whether the bundled hospital is built (without a subcommand).

    Example: medagent data
    """
    if context.invoked_subcommand is not None:
        return
    from medagent.benchmarks.medagentbench.inventory import built_hospital, present_datasets
    from medagent.reports.tables import print_table

    rows = [
        [found.name, found.version, str(len(found.tasks)), found.digest[:16], str(found.path.parent)]
        for found in present_datasets()
    ]
    print_table("Data sets", ["name", "version", "tasks", "digest", "where"], rows)
    print(f"hospital: {built_hospital() or 'not built yet; the first run builds it, or `medagent data build`'}")


@app.command("build")
def build() -> None:
    """Build the bundled hospital into the cache folder, where it is not there or damaged.

    Example: medagent data build
    """
    from medagent.benchmarks.medagentbench.ehr.embedded import bundled_file

    print(bundled_file(_say).path)


@app.command("push")
def push(
    to: Annotated[str, typer.Option(help="The FHIR base to load into, e.g. http://localhost:8080/fhir.")],
    ehr: Annotated[Path | None, typer.Option(help="FHIR data of your own instead of the bundled hospital.")] = None,
    fhir_header: server_options.FhirHeader = None,
    ca_file: server_options.CaFile = None,
) -> None:
    """Load the bundled hospital, or a file, into any FHIR server by transactions of 500 resources.

    The same command again continues where the last one stopped. HAPI 7.6 takes about 500 resources a second.

    Example: medagent data push --to http://localhost:8080/fhir
    """
    from medagent.fhir_data.push import push as push_data
    from medagent.reports.counter import Counter

    server = server_options.open_server(to, fhir_header, ca_file)
    print(push_data(server, ehr, Counter("resources"), _say))


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
