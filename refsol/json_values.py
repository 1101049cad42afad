"""JSON that others wrote, whose form is unknown."""

from __future__ import annotations

import json
from typing import Any


def json_value(text: str | bytes, other: Any = None) -> Any:
    """The value of a JSON text; `other` if the text is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return other


def as_object(value: Any) -> dict[str, Any]:
    """The value, or an empty object if it is not an object."""
    return value if isinstance(value, dict) else {}


def objects(value: Any) -> list[dict[str, Any]]:
    """The objects in a list; empty if the value is not a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
