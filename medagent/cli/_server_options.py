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
InsecureHttp = Annotated[
    bool,
    typer.Option("--insecure-http", help="Send a token over plain HTTP to another machine, where it can be read."),
]
CaFile = Annotated[Path | None, typer.Option("--ca-file", help="Certificates to trust for that server.")]


def open_server(url: str, headers: list[str] | None, insecure_http: bool, ca_file: Path | None) -> HttpEhr:
    """The server at a FHIR base, with a warning for plain HTTP. Its replies are not changed. Raises UserError for
    invalid options.
    """
    from urllib.parse import urlsplit

    from medagent.core.errors import UserError
    from medagent.core.fhir_token import plain_http_warnings, server_headers
    from medagent.fhir_data.http import HttpEhr, check_base
    from medagent.reports.tables import say

    check_base(url)
    parts = urlsplit(url)
    if parts.password is not None:
        raise UserError(
            f"the URL of {parts.hostname} contains a password, which would be shown; pass it with --fhir-header"
        )
    access = server_headers(url, headers or [], insecure_http)
    for warning in plain_http_warnings(url):
        say(f"warning: {warning}")
    return HttpEhr(url, url, headers=access, ca_file=ca_file)
