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
    reference_check: Annotated[
        bool, typer.Option("--reference-check/--no-reference-check", help="Refuse references to what is not there.")
    ] = True,
    episodes: Annotated[
        bool, typer.Option(help="Open private, logged copies on request (POST /episodes); needs --token.")
    ] = False,
    workers: Annotated[int, typer.Option(min=1, max=64, help="How many processes answer reads; one writes.")] = 1,
    durable: Annotated[
        bool, typer.Option(help="Keep acknowledged writes through a power failure: each waits for the disk.")
    ] = False,
    cors: Annotated[
        list[str] | None,
        typer.Option(
            help="An origin whose web pages may ask (`*`: any); repeatable. Off by default, unlike HAPI: any page that "
            "is open in a browser could read and write this server."
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            help="Without a token, a name under which the server may be asked beside localhost; repeatable. Others are "
            "refused: a web page can have its own name lead to this machine (DNS rebinding)."
        ),
    ] = None,
) -> None:
    """Serve FHIR R4 over HTTP: the bundled hospital, or your own data.

    An SQLite file is served as it is, and keeps what clients write. The bundled hospital and NDJSON stay as they are:
    what clients write to them goes when the server ends.

    Example: medagent serve --port 8080 --workers 4
    """
    import signal
    import sys

    from fhir_server.__main__ import serve
    from fhir_server.access import Access
    from fhir_server.errors import ServerError
    from medagent.core.errors import UserError
    from medagent.fhir_data.store import file_to_serve

    # An end by SIGTERM, too, unwinds the stack, so that the served copy is removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        with file_to_serve(data, lambda text: print(text, file=sys.stderr)) as file:
            access = Access(token, cors or (), allow_host or (), episodes)
            serve(file, host, port, access, insecure, reference_check, workers, durable)
    except ServerError as error:
        raise UserError(str(error)) from None
