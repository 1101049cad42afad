"""Messages between the processes of a server: the length in eight bytes, then the pickled message.

They are sent over pipes, and over Unix sockets in a folder that only this user can enter. So all unpickled data comes
from the same server.
"""

from __future__ import annotations

import asyncio
import pickle
import struct
from typing import Any, BinaryIO

_LENGTH = struct.Struct("!Q")
LIMIT = 1 << 20
"""The number of bytes that a stream reads ahead."""


async def send(writer: asyncio.StreamWriter, message: object) -> None:
    """Sends a message. Raises OSError if the other process has ended."""
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    writer.write(_LENGTH.pack(len(data)))
    writer.write(data)
    await writer.drain()


async def receive(reader: asyncio.StreamReader) -> Any:
    """Waits for a message. Raises EOFError (`asyncio.IncompleteReadError`) if the other process has ended."""
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    return pickle.loads(await reader.readexactly(length))


def write(target: BinaryIO, message: object) -> None:
    """Sends a message and blocks. See `send`."""
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    target.write(_LENGTH.pack(len(data)))
    target.write(data)
    target.flush()


def read(source: BinaryIO) -> Any:
    """Waits for a message and blocks. See `receive`. Raises EOFError."""
    head = source.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    return pickle.loads(source.read(_LENGTH.unpack(head)[0]))
