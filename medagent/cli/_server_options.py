"""Options of the commands that use a FHIR server over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from medagent.fhir_data.http import HttpEhr

FhirHeader = Annotated[
    list[str] | None,
    typer.Option(
        "--fhir-header", help="'Name: value', sent to that server. Put a bearer token into MEDAGENT_FHIR_TOKEN."
    ),
]
CaFile = Annotated[Path | None, typer.Option("--ca-file", help="Certificates to trust for that server.")]


def open_server(url: str, headers: list[str] | None, ca_file: Path | None) -> HttpEhr:
    """The server at a FHIR base. Its replies are not changed. Raises UserError for invalid options."""
    from urllib.parse import urlsplit

    from medagent.core.errors import UserError
    from medagent.fhir_data.http import HttpEhr, check_base
    from medagent.fhir_episodes.settings import server_headers

    check_base(url)
    parts = urlsplit(url)
    if parts.password is not None:
        raise UserError(
            f"the URL of {parts.hostname} contains a password, which would be shown; pass it with --fhir-header"
        )
    return HttpEhr(url, url, headers=server_headers(headers or []), ca_file=ca_file)
