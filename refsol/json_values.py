"""Texts and JSON that others wrote.

Half of a surrogate pair is not a character, and UTF-8 cannot hold it, but models, programs and JSON files contain such
halves. `unicode_text` and `unicode_json` replace them where a text enters: a reply, a message, a file. From there on,
every text is valid Unicode.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any, TypeGuard

_SURROGATES = re.compile(
    r"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)
"""An escaped backslash, an escaped pair, or half of one. In a JSON text, backslashes occur only in strings."""


def unicode_text(text: str) -> str:
    """The text with U+FFFD for each half of a surrogate pair."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def unicode_json(text: str) -> str:
    """A JSON text with U+FFFD for each half of a surrogate pair, escaped or not."""
    return _SURROGATES.sub(lambda match: match[0] if len(match[0]) != 6 else r"\ufffd", unicode_text(text))


def json_value(text: str | bytes, default: Any = None) -> Any:
    """The value of a JSON text; `default` if the text is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return default


def as_object(value: Any) -> dict[str, Any]:
    """The value, or an empty object if it is not an object."""
    return value if isinstance(value, dict) else {}


def objects(value: Any) -> list[dict[str, Any]]:
    """The objects in a list; empty if the value is not a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a value is a number that a float can hold. A JSON true is none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
