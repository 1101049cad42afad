"""HTTP connections of uvicorn with time limits on slow clients.

uvicorn waits forever for the rest of a request's head, and for a client that does not read its answer.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_S = 30.0
"""A connection is closed if the head of a request is not complete after this many seconds."""
STALLED_S = 30.0
"""A connection is closed if the client reads less than about 64 kB of a waiting response in this many seconds."""


class Connection(HttpToolsProtocol):
    """One connection."""

    _end: asyncio.TimerHandle | None = None
    """Closes the connection after `HEAD_S`."""
    _stalled: asyncio.TimerHandle | None = None
    """Closes the connection if the client does not read."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """See `asyncio.Protocol.connection_made`."""
        super().connection_made(transport)
        self._end = self.loop.call_later(HEAD_S, transport.close)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol.data_received`."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:  # a request has begun
            self._stop()
        elif self._end is None:
            self._end = self.loop.call_later(HEAD_S, self.transport.close)

    def pause_writing(self) -> None:
        """See `asyncio.BaseProtocol.pause_writing`: the client reads too slowly."""
        super().pause_writing()
        self._stalled = self.loop.call_later(STALLED_S, self.transport.abort)

    def resume_writing(self) -> None:
        """See `asyncio.BaseProtocol.resume_writing`."""
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol.connection_lost`."""
        self._stop()
        if self._stalled is not None:
            self._stalled.cancel()
        super().connection_lost(exc)

    def _stop(self) -> None:
        if self._end is not None:
            self._end.cancel()
            self._end = None
