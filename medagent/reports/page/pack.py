"""Data inside a page: JSON, deflated, in base64; large data in parts, so that a browser unpacks only what it shows."""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from medagent.core.scrub import hide
from medagent.engine.blocks import Block

PART_BYTES = 400_000
"""A part is full when its JSON has more characters."""


def packed(value: Any) -> str:
    """A value as JSON, without the secrets that this process knows, deflated and in base64."""
    return packed_text(plain_json(value))


def plain_json(value: Any) -> str:
    """A value as JSON; blocks are objects with their names."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain)


def packed_text(text: str) -> str:
    """A JSON text without the secrets that this process knows, deflated and in base64."""
    try:
        data = hide(text).encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which models produce
        data = json.dumps(json.loads(hide(text)), separators=(",", ":")).encode()
    deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
    return b64encode(deflate.compress(data) + deflate.flush()).decode()


class Parts:
    """Packed parts of a page. `add` appends a value and returns the number of its part and its place there."""

    def __init__(self) -> None:
        self._packed: list[str] = []
        self._open: list[str] = []
        self._size = 0

    def add(self, value: Any) -> tuple[int, int]:
        """Append a value."""
        if self._size > PART_BYTES:
            self._close()
        self._open.append(plain_json(value))
        self._size += len(self._open[-1])
        return len(self._packed), len(self._open) - 1

    def packed(self) -> Sequence[str]:
        """All parts. Nothing can be added after that."""
        if self._open:
            self._close()
        return self._packed

    def _close(self) -> None:
        self._packed.append(packed_text(f"[{','.join(self._open)}]"))
        self._open, self._size = [], 0


def _plain(value: Any) -> Any:
    """A dataclass as an object of its fields; a block has its name too."""
    if is_dataclass(value) and not isinstance(value, type):
        named = {"name": value.name} if isinstance(value, Block) else {}
        return {**named, **{field.name: getattr(value, field.name) for field in fields(value)}}
    raise TypeError(f"{type(value).__name__} is no part of a page")
