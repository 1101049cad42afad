"""Measures what the private layer adds to a search page of 100 resources: CPU of this process, the server included.

Run: `python -m benchmarks.private_layer`. The hospital is the bundled one, in process behind an HTTP client. A page is
read without the layer, with an empty layer, with writes that do not touch the search, and with one written match, which
is merged into it (without and with `_sort`). Each number is from the least of five turns of 40 pages.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable

import httpx

from benchmarks.table import machine, row
from fhir_server import Request, Server
from medagent.fhir_data.embedded import bundled_file
from medagent.fhir_data.http import HttpEhr
from medagent.fhir_data.private.session import PrivateEhr
from medagent.fhir_data.record import EhrSession, FhirRequest
from refsol.medagentbench.constants import PUBLISHED

URL, SHOWN = "http://hospital.example/fhir", "http://localhost:8080/fhir"
PAGES, TURNS = 40, 5
TARGET = "≤ 5"


class InProcess(httpx.AsyncBaseTransport):
    """The hospital's server without a network."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        reply = self._server.handle(Request(request.method, request.url.raw_path.decode()))
        return httpx.Response(reply.status, headers=reply.headers, content=reply.body)


async def main() -> None:
    """Print the rows."""
    machine()
    server = Server.open(bundled_file().path, base=URL)
    patient = next(json.loads(line)["subject"]["reference"] for line in server.export("Observation"))
    search = f"/Observation?subject={patient}&_count=100"
    written = {"resourceType": "Observation", "status": "final", "code": {"text": "note"},
               "subject": {"reference": patient}, "effectiveDateTime": "2023-06-01"}  # fmt: skip
    transport = InProcess(server)
    async with HttpEhr(URL, SHOWN, transport=transport) as http:
        private = PrivateEhr(http, SHOWN, PUBLISHED.now)
        async with (
            http.session("s") as plain,
            private.session("s") as empty,
            private.session("s") as unrelated,
            private.session("s") as merged,
        ):
            await unrelated.write(FhirRequest("POST", "/Basic", json.dumps({"resourceType": "Basic", "code": {}})))
            await merged.write(FhirRequest("POST", "/Observation", json.dumps(written)))
            base = await least(pages(plain, search))
            sorted_base = await least(pages(plain, f"{search}&_sort=date"))
            for name, session, target, without in (
                ("a page of 100, no writes", empty, search, base),
                ("a page of 100, writes of another type", unrelated, search, base),
                ("a page of 100, one written match", merged, search, base),
                ("a page of 100, one written match, _sort", merged, f"{search}&_sort=date", sorted_base),
            ):
                added = await least(pages(session, target)) - without
                row(f"{name}: the layer adds", TARGET, added * 1e3, "ms of CPU")
    server.close()


def pages(session: EhrSession, target: str) -> Callable[[], Awaitable[None]]:
    """Reads the first page of a search, again and again."""

    async def read() -> None:
        for _ in range(PAGES):
            assert (await session.get(target)).ok

    return read


async def least(work: Callable[[], Awaitable[None]]) -> float:
    """The CPU seconds of one page, the least of the turns."""
    times = []
    for _ in range(TURNS):
        began = time.process_time()
        await work()
        times.append((time.process_time() - began) / PAGES)
    return min(times)


if __name__ == "__main__":
    asyncio.run(main())
