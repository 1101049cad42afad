"""Data inside a page: JSON, deflated, in base64; large data in parts, so that a browser unpacks only what it shows."""

from __future__ import annotations

import json
import weakref
import zlib
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from os import SEEK_END
from tempfile import SpooledTemporaryFile, gettempdir
from typing import Any, NamedTuple

from medagent.core.errors import UserError
from medagent.core.scrub import hide
from medagent.engine.blocks import Block

PART_BYTES = 400_000
"""A part is full when its JSON has more characters."""
MEMORY_BYTES = 50_000_000
"""Larger parts are stored in a temporary file."""


def packed(value: Any) -> str:
    """A value as JSON, without the secrets that this process knows, deflated and in base64."""
    return packed_text(plain_json(value))


def plain_json(value: Any) -> str:
    """A value as JSON; blocks are objects with their names."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain)


def packed_text(text: str) -> str:
    """A JSON text without the secrets that this process knows, deflated and in base64."""
    deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
    return b64encode(deflate.compress(hide(text).encode()) + deflate.flush()).decode()


class Place(NamedTuple):
    """Where a value is: the number of the part, the place in it, and the generated values that it contains."""

    part: int
    number: int
    values: tuple[str, ...]


class Parts:
    """Parts of a page. `add` appends a value and returns the number of the part and the place in it.

    A value with a digest is stored once. Large parts are stored in a temporary file. You may read the parts before they
    are complete: the last one is then not full.
    """

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(MEMORY_BYTES, "w+", encoding="ascii", newline="")  # noqa: SIM115  # closed below
        weakref.finalize(self, self._file.close)
        self._sizes: list[int] = []
        """Characters of each part in the file."""
        self._open: list[str] = []
        self._size = 0
        self._places: dict[bytes, Place] = {}

    def place(self, digest: bytes) -> Place | None:
        """Where a value with a digest is."""
        return self._places.get(digest)

    def add(self, blocks: Any, digest: bytes = b"", values: tuple[str, ...] = ()) -> tuple[int, int]:
        """Append an item's blocks; with `values` as an object with both. Raises UserError."""
        place = len(self._sizes), len(self._open)
        text = plain_json({"blocks": blocks, "values": values} if values else blocks)
        self._open.append(text)
        self._size += len(text)
        if digest:
            self._places[digest] = Place(*place, values)
        if self._size > PART_BYTES:
            self._store(self._packed_open())
            self._open, self._size = [], 0
        return place

    def __iter__(self) -> Iterator[str]:
        place = 0
        for size in list(self._sizes):
            self._file.seek(place)
            yield self._file.read(size)
            place += size
        if self._open:
            yield self._packed_open()

    def _store(self, part: str) -> None:
        try:
            self._file.seek(0, SEEK_END)
            self._file.write(part)
        except OSError as error:
            raise UserError(f"{gettempdir()}: cannot be written: {error.strerror}") from None
        self._sizes.append(len(part))

    def _packed_open(self) -> str:
        return packed_text(f"[{','.join(self._open)}]")


def _plain(value: Any) -> Any:
    """A dataclass as an object of its fields; a block has its name too."""
    if is_dataclass(value) and not isinstance(value, type):
        named = {"name": value.name} if isinstance(value, Block) else {}
        return {**named, **{field.name: getattr(value, field.name) for field in fields(value)}}
    raise TypeError(f"{type(value).__name__} is no part of a page")
