"""`medagent serve`: the embedded FHIR server on a port."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    data: Annotated[
        Path | None, typer.Option(help="What to serve: an SQLite file of `medagent ehr import`, or NDJSON.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8080,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    token: Annotated[
        str | None, typer.Option(envvar="MEDAGENT_SERVE_TOKEN", help="Ask clients for this bearer token.")
    ] = None,
    insecure: Annotated[bool, typer.Option(help="Listen beyond this machine without a token.")] = False,
) -> None:
    """Serve FHIR R4 over HTTP: the bundled hospital, or your own data.

    An SQLite file is served as it is, and keeps what clients write. The bundled hospital and NDJSON stay as they are:
    what clients write to them goes when the server ends.

    Example: medagent serve --port 8080
    """
    from fhir_server.app import serve
    from medagent.ehr.store import open_to_serve

    with open_to_serve(data) as server:
        serve(server, host=host, port=port, token=token, insecure=insecure)
