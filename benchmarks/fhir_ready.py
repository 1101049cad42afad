"""An HTTP server with a ready answer, on uvloop: the cost of a request without any search.

    python -m benchmarks.fhir_ready PORT BYTES

It finds the end of a request's head, and writes BYTES bytes with the headers of the FHIR server's searches. Over one
connection, most of its time is waking up, which the FHIR server has to do too.
"""

from __future__ import annotations

import asyncio
import sys
from typing import cast

import uvloop

HEAD = (
    "HTTP/1.1 200 \r\ndate: Sun, 22 Nov 2026 12:00:00 GMT\r\nx-powered-by: HAPI FHIR 7.6.0 REST Server (FHIR Server;"
    " FHIR 4.0.1/R4)\r\nx-request-id: 0123456789abcdef\r\nlast-modified: Sun, 22 Nov 2026 12:00:00 GMT\r\ncontent-type:"
    " application/fhir+json;charset=UTF-8\r\ncontent-length: {length}\r\n\r\n"
)


def main() -> None:
    port, length = int(sys.argv[1]), int(sys.argv[2])
    ready = HEAD.format(length=length).encode() + b" " * length

    class Ready(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self._transport = cast(asyncio.Transport, transport)

        def data_received(self, data: bytes) -> None:
            if data.endswith(b"\r\n\r\n"):
                self._transport.write(ready)

    async def serve() -> None:
        server = await asyncio.get_running_loop().create_server(Ready, "127.0.0.1", port)
        await server.serve_forever()

    uvloop.run(serve())


if __name__ == "__main__":
    main()
