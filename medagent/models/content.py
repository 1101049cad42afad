"""The content of a model's message: which parts are its text, which are reasoning, and which are a refusal.

Providers send content as a text, or as a list of parts. Only the text is acted on. Reasoning is stored, a refusal ends
the item, and every other part (`reference`, `image`, …) is left out and counted, because nobody can act on it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from refsol.json_values import unicode_text

_TEXT = ("text", "output_text")
_REASONING = ("thinking", "reasoning", "redacted_thinking")
_WITH_REASONING = ("thinking", "text", "content", "summary")
"""The members of a reasoning part that may contain its text; the first one with text counts."""
_LONGEST_TYPE = 40
_DEEPEST = 20


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a message. `left_out` are the types of the other parts, one entry a part."""

    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    left_out: tuple[str, ...] = ()


def read_content(content: Any) -> Content:
    """The content of a message: a text, a list of parts, null. Anything else is its JSON. All texts are valid Unicode.

    Raises RecursionError if a part is nested too deeply.
    """
    if isinstance(content, dict) and (isinstance(content.get("text"), str) or "type" in content):
        content = [content]
    if not isinstance(content, list):
        return Content(as_text(content))
    texts: list[str] = []
    reasoning: list[str] = []
    refusals: list[str] = []
    left_out: list[str] = []
    for part in _parts(content):
        kind = part_type(part)
        if kind in _TEXT:
            texts.append(part_text(part))
        elif kind in _REASONING:
            reasoning.append(reasoning_of(part))
        elif kind == "refusal":
            refusals.append(as_text(part.get("refusal")) or as_text(part.get("text")) or "refused")
        elif part is not None:  # some gateways include nulls
            left_out.append(kind)
    return Content("".join(texts), joined(reasoning), joined(refusals), tuple(left_out))


def _parts(content: list[Any], depth: int = 1) -> Iterator[Any]:
    """The parts of a list, and of lists in it."""
    if depth > _DEEPEST:
        raise RecursionError
    for part in content:
        if isinstance(part, list):
            yield from _parts(part, depth + 1)
        else:
            yield part


def part_type(part: Any) -> str:
    """The type of a part. A part without a type that contains a text, and a text alone, are `text`."""
    if isinstance(part, str):
        return "text"
    if not isinstance(part, dict):
        return type(part).__name__
    kind = part.get("type")
    if isinstance(kind, str) and kind:
        return unicode_text(kind[:_LONGEST_TYPE])
    return "text" if isinstance(part.get("text"), str) else "part without a type"


def part_text(part: Any) -> str:
    """The text of a part of type `text`."""
    return as_text(part.get("text")) if isinstance(part, dict) else as_text(part)


def reasoning_of(part: Any) -> str:
    """The text of a reasoning part: a text, or parts that contain texts."""
    if not isinstance(part, dict):
        return as_text(part)
    members = (_inner_text(part.get(name)) for name in _WITH_REASONING)
    return next((text for text in members if text.strip()), "")


def joined(texts: Iterable[str]) -> str:
    """The texts that are not blank, one below the other."""
    return "\n".join(text for text in texts if text.strip()).strip()


def _inner_text(value: Any) -> str:
    if isinstance(value, list):
        return "".join(_inner_text(part) for part in value)
    if isinstance(value, dict):
        return as_text(value.get("text"))
    return as_text(value)


def as_text(value: Any) -> str:
    """A text unchanged, null as an empty one, anything else as its JSON, in valid Unicode."""
    if value is None:
        return ""
    return unicode_text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
