"""The random ids of a server: of Bundles, pages and requests.

With a seed they are the same each time, so that an episode's answers are the same bytes in every run.
"""

from __future__ import annotations

import random
import string
from functools import lru_cache

_LETTERS = string.ascii_letters + string.digits


class IdSource:
    """Random ids; without a seed they differ from run to run."""

    def __init__(self, seed: str | None = None) -> None:
        self._random = random.Random(seed)
        self._drawn: list[int] | None = None
        self._again: list[int] = []

    def mark(self) -> None:
        """Marks the current state for `rewind`."""
        self._drawn = []

    def rewind(self) -> None:
        """Returns to the state at `mark`: the same calls in the same order return the same ids again."""
        self._again += reversed(self._drawn or ())
        self._drawn = None

    def _bits(self, count: int) -> int:
        drawn = self._again.pop() if self._again else self._random.getrandbits(count)
        if self._drawn is not None:
            self._drawn.append(drawn)
        return drawn

    def uuid(self) -> str:
        """A random UUID (RFC 9562, version 4)."""
        bits = self._bits(128) & ~(0xF << 76) & ~(0x3 << 62) | (4 << 76) | (2 << 62)
        text = f"{bits:032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def request_id(self) -> str:
        """Sixteen letters and digits, like HAPI's request ids."""
        bits = self._bits(96)
        pairs = _pairs()
        return "".join([pairs[bits >> shift & 4095] for shift in range(0, 96, 12)])


@lru_cache(maxsize=1)
def _pairs() -> list[str]:
    """Two characters for each number of twelve bits; two of the 62 characters are used twice."""
    letters = _LETTERS + _LETTERS[:2]
    return [first + second for first in letters for second in letters]
