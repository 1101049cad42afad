"""Text on its way to and from a model: templates filled in, thinking cut away."""

from __future__ import annotations

import re

_FIELD = re.compile(r"\{([a-z_]+)\}")


def fill(template: str, **values: str) -> str:
    """The template with each `{name}` that has a value replaced, in one pass; other braces stay as they are."""
    return _FIELD.sub(lambda match: values.get(match[1], match[0]), template)


def strip_thinking(message: str) -> str:
    """The message without a leading `<think>…</think>` block; as it is where there is none or it is not closed."""
    start = message.lstrip()
    if not start.startswith("<think>"):
        return message
    _, closed, rest = start.partition("</think>")
    return rest.lstrip() if closed else message
