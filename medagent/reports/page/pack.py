"""Data inside a page: JSON, deflated, in base64; large data in parts, so that a browser unpacks what is looked at."""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from medagent.core.scrub import hide
from medagent.engine.blocks import Block

PART_BYTES = 400_000
"""A part is closed when its JSON is longer than this."""


def packed(value: Any) -> str:
    """A value as JSON, without the secrets that this process knows, deflated and in base64."""
    text = hide(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain))
    try:
        data = text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which models do write
        data = hide(json.dumps(value, separators=(",", ":"), default=_plain)).encode()
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    return b64encode(deflate.compress(data) + deflate.flush()).decode()


class Parts:
    """Parts that are filled one value after the other; `add` gives the number of the part and the place in it."""

    def __init__(self) -> None:
        self._packed: list[str] = []
        self._open: list[Any] = []
        self._size = 0

    def add(self, value: Any) -> tuple[int, int]:
        """Put a value into the part that is open."""
        place = len(self._packed), len(self._open)
        self._open.append(value)
        self._size += len(json.dumps(value, ensure_ascii=False, default=_plain))
        if self._size > PART_BYTES:
            self._close()
        return place

    def __iter__(self) -> Iterator[str]:
        if self._open:
            self._close()
        return iter(self._packed)

    def _close(self) -> None:
        self._packed.append(packed(self._open))
        self._open, self._size = [], 0


def _plain(value: Any) -> Any:
    """A block as an object with its name; other dataclasses as lists of their fields would lose their names."""
    if is_dataclass(value) and not isinstance(value, type):
        named = {"name": value.name} if isinstance(value, Block) else {}
        return {**named, **{field.name: getattr(value, field.name) for field in fields(value)}}
    raise TypeError(f"{type(value).__name__} is no part of a page")
