"""Text to and from a model: filling templates, removing thinking."""

from __future__ import annotations

import re

_FIELD = re.compile(r"\{([a-z_]+)\}")
_THINKING = re.compile(r"^[ \t]*<think>.*?(?:</think>|\Z)", re.MULTILINE | re.DOTALL)


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
    """The message without its `<think>…</think>` blocks that begin a line, wherever they are; one that is not closed
    goes on to the end.
    """
    return _THINKING.sub("", message)
