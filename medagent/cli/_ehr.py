"""`medagent ehr`: FHIR data in files: import, export, copy from a live server, count."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medagent.cli import _server_options as server_options
from medagent.terminal import options
from medagent.terminal.groups import group

app = group(
    "Patients' FHIR data in files and servers: build the bundled hospital; import, export, copy, push, count.\n\n"
    "Example: medagent ehr import output/fhir/*.json --data synthea.sqlite"
)

_Data = Annotated[Path, typer.Option("--data", help="The SQLite file of the embedded server.")]


@app.command("build")
def build() -> None:
    """Build the bundled hospital into the cache folder, where it is not there or damaged.

    Example: medagent ehr build
    """
    from medagent.fhir_data.embedded import bundled_file
    from medagent.reports.tables import say

    print(bundled_file(say).path)


@app.command("push")
def push(
    to: Annotated[str, typer.Option(help="The FHIR base to load into, e.g. http://localhost:8080/fhir.")],
    ehr: Annotated[Path | None, typer.Option(help="FHIR data of your own instead of the bundled hospital.")] = None,
    fhir_header: server_options.FhirHeader = None,
    ca_file: server_options.CaFile = None,
) -> None:
    """Load the bundled hospital, or a file, into any FHIR server by transactions of 500 resources.

    The same command again continues where the last one stopped. HAPI 7.6 takes about 500 resources a second.

    Example: medagent ehr push --to http://localhost:8080/fhir
    """
    from medagent.fhir_data.push import push as push_data
    from medagent.reports.counter import Counter
    from medagent.reports.tables import say

    server = server_options.open_server(to, fhir_header, ca_file)
    print(push_data(server, ehr, Counter("resources"), say))


@app.command("import")
def import_(
    files: Annotated[list[Path], typer.Argument(help="NDJSON, one resource or Bundle a file; .gz too.")],
    data: _Data,
    reference_check: Annotated[
        bool, typer.Option("--reference-check/--no-reference-check", help="Whether references must lead somewhere.")
    ] = True,
) -> None:
    """Import resources into an SQLite file, made where it is not there; all of them, or none.

    Synthea's output is taken as it comes: name the hospital and practitioner files too.

    Example: medagent ehr import output/fhir/*.json --data synthea.sqlite
    """
    from medagent.fhir_data.store import import_files

    taken = import_files(files, data, reference_check=reference_check)
    print(f"{data}: {taken} resources imported; medagent serve --data {data} serves them")


@app.command("export")
def export(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new or empty folder; a file a type is written.")],
    data: _Data,
) -> None:
    """Write all resources as NDJSON, a file a type.

    Example: medagent ehr export out --data synthea.sqlite
    """
    from medagent.fhir_data.store import export_folder

    for path, count in export_folder(data, folder):
        print(f"{path}: {count}")


@app.command("copy")
def copy(
    file: Annotated[Path, typer.Argument(metavar="FILE.ndjson", help="Where the resources go.")],
    source: Annotated[str, typer.Option("--from", help="The FHIR base to copy, e.g. http://localhost:8080/fhir.")],
    fhir_header: server_options.FhirHeader = None,
    ca_file: server_options.CaFile = None,
) -> None:
    """Copy all resources of a live server into a file, as the server sends them.

    The same command again continues where the last one stopped.

    Example: medagent ehr copy --from http://localhost:8080/fhir copy.ndjson
    """
    from medagent.fhir_data.copy import copy as copy_server
    from medagent.reports.counter import Counter

    server = server_options.open_server(source, fhir_header, ca_file)
    print(copy_server(server, file, Counter("resources")))


@app.command("stats")
def stats(data: _Data, as_json: options.AsJson = False) -> None:
    """Count the resources of each type.

    Example: medagent ehr stats --data synthea.sqlite
    """
    import json

    from medagent.fhir_data.store import count_types
    from medagent.reports.tables import print_table

    counts = count_types(data)
    if as_json:
        print(json.dumps(counts, indent=1))
        return
    rows = [[name, str(count)] for name, count in counts.items()]
    print_table(str(data), ["type", "resources"], [*rows, [], ["all", str(sum(counts.values()))]])
