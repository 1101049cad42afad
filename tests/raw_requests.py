"""Bytes on a connection, for tests of servers that get what no HTTP client sends."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing, suppress
from urllib.parse import urlsplit

PIECE = 64 * 1024
"""Bytes that are sent before it is looked whether the server has answered."""


def answer_to(url: str, *parts: bytes | Iterator[bytes]) -> bytes:
    """What a server answers to these bytes, until it closes the connection. Sending ends when the connection does."""
    address = urlsplit(url)
    with closing(socket.create_connection((address.hostname, address.port), timeout=20)) as connection:
        with suppress(ConnectionError):
            for part in parts:
                for piece in [part] if isinstance(part, bytes) else part:
                    connection.sendall(piece)
        answer = b""
        with suppress(ConnectionError):
            while received := connection.recv(PIECE):
                answer += received
    return answer


def status(url: str, *parts: bytes | Iterator[bytes]) -> int:
    """The status of the first answer; 0 if there is none."""
    first = answer_to(url, *parts)[:12]
    return int(first[9:12] or 0)


def repeated(piece: bytes, size: int) -> Iterator[bytes]:
    """A piece again and again, `size` bytes in all, some kilobytes at once."""
    block = piece * (16_384 // len(piece) + 1)
    for _ in range(size // len(block) + 1):
        yield block
