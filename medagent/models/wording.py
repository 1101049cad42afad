"""Text to and from a model: filling templates, removing thinking."""

from __future__ import annotations

import re

_FIELD = re.compile(r"\{([a-z_]+)\}")
BLOCK = r"^[ \t]*(?P<fence>`{3,})[ \t]*(?P<language>[\w+-]*)[^\n`]*\n(?P<code>.*?)(?:^[ \t]*(?P=fence)`*[ \t]*$|\Z)"
"""A fenced block of code, for MULTILINE and DOTALL."""
_THINKING = re.compile(
    rf"{BLOCK}|<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)|(?P<end></think(?:ing)?>)",
    re.MULTILINE | re.DOTALL | re.IGNORECASE,
)


def fill(template: str, **values: str) -> str:
    """The template with each `{name}` replaced by its value, in one pass. Other braces are not changed."""
    return _FIELD.sub(lambda match: values.get(match[1], match[0]), template)


def strip_thinking(message: str) -> str:
    """The message without a leading `<think>…</think>` block. Unchanged if there is none or it is not closed."""
    start = message.lstrip()
    if not start.startswith("<think>"):
        return message
    _, closed, rest = start.partition("</think>")
    return rest.lstrip() if closed else message


def without_thinking(message: str) -> str:
    """The message without its `<think>…</think>` and `<thinking>…</thinking>` blocks, wherever they are outside of
    fenced code. One that is not closed goes on to the end; one that is not opened begins with the message, since chat
    templates may open it.
    """
    parts, position = [], 0
    for match in _THINKING.finditer(message):
        parts.append(message[position : match.start()])
        if match["end"]:
            parts.clear()
        elif match["fence"]:
            parts.append(match[0])
        position = match.end()
    return "".join(parts) + message[position:]
