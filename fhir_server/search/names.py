"""Numbers for the texts that repeat in index rows: systems of codes and units, profiles and other URIs.

One text is 40 to 100 bytes, and most resources contain several. An index row contains its number instead, a 64-bit
hash, so that a condition knows the number without a query. The table `names` contains the text of each number, for
searches that compare or sort by parts of the text.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import Final

TABLE: Final = "names"
COLUMNS: Final = ("number", "text")


@lru_cache(maxsize=1 << 14)
def number(text: str) -> int:
    """The number of a text; 0 for the empty text. Two of a million texts are equal with a probability of 3e-8."""
    digest = blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True) if text else 0


def text(column: str) -> str:
    """SQL for the text of the number in a column."""
    return f"(SELECT names.text FROM names WHERE names.number = {column})"


def where(column: str, condition: str) -> str:
    """SQL for the condition that the text of the number in a column matches a condition on `names.text`."""
    return f"{column} IN (SELECT names.number FROM names WHERE {condition})"
