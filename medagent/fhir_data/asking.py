"""Blocking GETs of a FHIR server: the embedded server in process, or a server over HTTP."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from medagent.core.errors import FhirUnavailableError
from medagent.core.wire import split_credentials
from refsol.errors import FactsError

if TYPE_CHECKING:
    from fhir_server import Server

_TIMEOUT = 60.0
TARGET = "/?&=%:;,+@!$'()*~"
"""The characters of a target that are not percent-encoded, as in an HTTP client."""


Ask = Callable[[str], tuple[int, bytes]]
"""A GET of a URL; returns status and body."""


def server_ask(server: Server, base: str) -> Ask:
    """GETs of an embedded server below its base, in process. Safe for several threads, which wait for each other."""
    from fhir_server import Request

    root = "/".join(base.split("/")[:3])
    turn = threading.Lock()

    def ask(url: str) -> tuple[int, bytes]:
        with turn:
            response = server.handle(Request("GET", quote(url.removeprefix(root), safe=TARGET)))
        return response.status, response.body

    return ask


def http_ask(url: str, headers: Mapping[str, str], ca_file: Path | None) -> tuple[str, Ask]:
    """The address of a FHIR server without credentials, and GETs over HTTP, which raise FactsError.

    After the server's first answer, requests are repeated if it is busy or unreachable, as in an episode.
    """
    import ssl

    import httpx

    from medagent.core.certificates import certificates
    from medagent.core.fhir_token import renewing
    from medagent.fhir_data.http import BUSY, remember_access
    from medagent.models.retry import EndpointFailure, Retries, RetryPolicy, retry_after

    address, credentials = split_credentials(url)
    remember_access(credentials, headers)
    verify = ssl.create_default_context(cafile=ca_file) if ca_file else certificates()
    client = httpx.Client(headers=dict(headers), auth=renewing() or credentials, verify=verify, timeout=_TIMEOUT)

    known = threading.Event()  # whether it has answered: a wrong address is reported immediately

    def once(url: str) -> tuple[int, bytes]:
        try:
            response = client.get(url)
        except httpx.TransportError as error:
            raise EndpointFailure(f"no answer: {str(error) or type(error).__name__}") from None
        if response.status_code in BUSY:
            raise EndpointFailure(f"status {response.status_code}", retry_after=retry_after(response.headers))
        known.set()
        return response.status_code, response.content

    def ask(url: str) -> tuple[int, bytes]:
        retries = Retries(RetryPolicy(), FhirUnavailableError)
        while True:
            started = time.monotonic()
            try:
                return once(url)
            except EndpointFailure as failure:
                if not known.is_set():
                    raise FactsError(f"{url}: {failure}") from None
                try:
                    wait = retries.after(failure, time.monotonic() - started)
                except FhirUnavailableError as error:
                    raise FactsError(f"{url}: {error}") from None
            time.sleep(wait)

    weakref.finalize(ask, client.close)
    return address, ask
