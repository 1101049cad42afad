"""`medagent ehr`: FHIR data in files and on servers: build, push, import, export, copy, count."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from medagent.cli import _server_options as server_options
from medagent.terminal import options
from medagent.terminal.counter import Counter
from medagent.terminal.groups import group

app = group(
    "Patients' FHIR data in files and servers: build the bundled hospital; import, export, copy, push, count.\n\n"
    "Example: medagent ehr import output/fhir/*.json --data synthea.sqlite"
)

_Data = Annotated[Path, typer.Option("--data", help="The SQLite file of the embedded server.")]


@app.command("build")
def build() -> None:
    """Build the bundled hospital in the cache folder, if it is missing or damaged.

    Example: medagent ehr build
    """
    from medagent.fhir_data.embedded import bundled_file
    from medagent.reports.tables import put, say

    put(bundled_file(say).path)


@app.command("push")
def push(
    to: Annotated[str, typer.Option(help="The FHIR base to write to, e.g. http://localhost:8080/fhir.")],
    ehr: Annotated[Path | None, typer.Option(help="Your own FHIR data instead of the bundled hospital.")] = None,
    fhir_header: server_options.FhirHeader = None,
    insecure_http: server_options.InsecureHttp = False,
    ca_file: server_options.CaFile = None,
) -> None:
    """Load the bundled hospital, or a file, into any FHIR server in transactions of 500 resources.

    To continue after an interruption, repeat the command.

    Example: medagent ehr push --to http://localhost:8080/fhir
    """
    from medagent.fhir_data.push import push as push_data
    from medagent.reports.tables import put, say

    server = server_options.open_server(to, fhir_header, insecure_http, ca_file)
    put(push_data(server, ehr, Counter("resources"), say))


@app.command("import")
def import_(
    files: Annotated[list[Path], typer.Argument(help="NDJSON, or JSON with one resource or Bundle; .gz too.")],
    data: _Data,
    reference_check: Annotated[
        bool, typer.Option("--reference-check/--no-reference-check", help="Refuse references to missing resources.")
    ] = True,
    max_line: Annotated[
        int, typer.Option(min=1, metavar="MB", help="Largest line of NDJSON, or whole JSON document, in MB.")
    ] = 64,
) -> None:
    """Import resources into an SQLite file, which is made if needed: all of them, or none after an error.

    You can import Synthea's output. Pass its hospital and practitioner files too.

    Example: medagent ehr import output/fhir/*.json --data synthea.sqlite
    """
    from medagent.fhir_data.store import import_files
    from medagent.reports.tables import put

    count = import_files(files, data, reference_check=reference_check, longest=max_line * 1_000_000)
    put(f"{data}: {count} resources imported. Serve them: medagent serve --data {shlex.quote(str(data))}")


@app.command("export")
def export(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new or empty folder.")],
    data: _Data,
) -> None:
    """Write all resources as NDJSON, one file per resource type.

    Example: medagent ehr export out --data synthea.sqlite
    """
    from medagent.fhir_data.store import export_folder
    from medagent.reports.tables import put

    for path, count in export_folder(data, folder):
        put(f"{path}: {count}")


@app.command("copy")
def copy(
    file: Annotated[Path, typer.Argument(metavar="FILE.ndjson", help="The file to write.")],
    source: Annotated[str, typer.Option("--from", help="The FHIR base to copy, e.g. http://localhost:8080/fhir.")],
    fhir_header: server_options.FhirHeader = None,
    insecure_http: server_options.InsecureHttp = False,
    ca_file: server_options.CaFile = None,
) -> None:
    """Copy all resources of a server into a file, unchanged.

    To continue after an interruption, repeat the command.

    Example: medagent ehr copy --from http://localhost:8080/fhir copy.ndjson
    """
    from medagent.fhir_data.copy import copy as copy_server
    from medagent.reports.tables import put

    server = server_options.open_server(source, fhir_header, insecure_http, ca_file)
    put(copy_server(server, file, Counter("resources")))


@app.command("stats")
def stats(data: _Data, as_json: options.AsJson = False) -> None:
    """Count the resources of each type.

    Example: medagent ehr stats --data synthea.sqlite
    """
    import json

    from medagent.fhir_data.store import count_types
    from medagent.reports.tables import Table, print_table

    counts = count_types(data)
    if as_json:
        print(json.dumps(counts, indent=1))
        return
    rows = [*counts.items(), (), ("all", sum(counts.values()))]
    print_table(Table(["type", "resources"], rows, str(data)))
