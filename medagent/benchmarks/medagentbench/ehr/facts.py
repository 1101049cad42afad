"""Facts that verdicts rest on, read from an EHR: the embedded server in process, or a FHIR server over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from medagent.wire import split_credentials
from refsol.medagentbench import Ehr as Facts

if TYPE_CHECKING:
    import httpx

    from fhir_server import Server

_BASE = "http://localhost/fhir"


def embedded_facts(path: Path) -> Facts:
    """The embedded server over an SQLite file of its own, asked in process."""
    from medagent.benchmarks.medagentbench.ehr.embedded import EmbeddedEhr
    from refsol.medagentbench import HttpEhr

    return HttpEhr(_BASE, in_process(EmbeddedEhr.open(path, _BASE).server))


def http_facts(url: str, headers: Mapping[str, str], ca_file: Path | None) -> Facts:
    """A FHIR server over HTTP."""
    from refsol.medagentbench import HttpEhr

    address, credentials = split_credentials(url)
    return HttpEhr(address, headers=dict(headers), auth=credentials, verify=str(ca_file) if ca_file else True)


def in_process(server: Server) -> httpx.BaseTransport:
    """An httpx transport that hands requests to an embedded server, without a socket."""
    import httpx

    from fhir_server import Request

    def answer(request: httpx.Request) -> httpx.Response:
        target = request.url.raw_path.decode("ascii")
        response = server.handle(Request(request.method, target, tuple(request.headers.items()), request.content))
        return httpx.Response(response.status, headers=list(response.headers), content=response.body)

    return httpx.MockTransport(answer)
