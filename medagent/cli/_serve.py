"""`medagent serve`: the embedded FHIR server on a port."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from medagent.fhir_data.serving import ServingAccess
from medagent.terminal import options
from medagent.terminal.settings import fields_of, with_options


@with_options(fields_of(ServingAccess))
def command(
    asking: dict[str, Any],
    data: Annotated[
        Path | None, typer.Option(help="The data: an SQLite file from `medagent ehr import`, or NDJSON.")
    ] = None,
    port: options.Port = 8080,
    host: options.Host = "127.0.0.1",
    reference_check: Annotated[
        bool, typer.Option("--reference-check/--no-reference-check", help="Refuse references to missing resources.")
    ] = True,
    durable: Annotated[
        bool, typer.Option(help="Wait for the disk at each write, so that a power failure loses none.")
    ] = False,
) -> None:
    """Serve FHIR R4 over HTTP: the bundled hospital, or your own data.

    An SQLite file stores the writes of clients. The bundled hospital and NDJSON files are not changed: the writes of
    clients are lost when the server stops.

    Example: medagent serve --port 8080

    Example: medagent serve --data hospital.sqlite --allow-hook localhost
    """
    import signal
    import sys

    from fhir_server.__main__ import serve
    from fhir_server.errors import ServerError
    from medagent.core.errors import UserError
    from medagent.core.options import checked
    from medagent.fhir_data.store import file_to_serve
    from medagent.reports.tables import say

    who = checked(ServingAccess, asking)
    access = who.access
    # SIGTERM unwinds the stack too, so that the served copy is removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        with file_to_serve(data, say) as file:
            hooks = who.allow_hook
            serve(file, host, port, access, who.insecure, reference_check, durable, hooks)
    except ServerError as error:
        raise UserError(str(error)) from None
