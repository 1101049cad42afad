"""Markup of a model's tool calls and channels that its server should have read, but left in the text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from medagent.models.base import Completion

_PARSERS = {
    "<tool_call>": "a parser of tool calls (vLLM: --tool-call-parser NAME; llama.cpp: --jinja)",
    "<|channel|>": "a parser of channels (vLLM: --reasoning-parser NAME; llama.cpp: --jinja)",
    "default_api.": "a parser of tool calls; the model writes them as Python",
}
"""What leaks, and what its server lacks."""
_MARKUP = {
    "<tool_call>": re.compile(r"</?tool_call>|\[TOOL_CALLS\]|<\|python_tag\|>|<function=|<\|tool_call"),
    "<|channel|>": re.compile(r"<\|(channel|start|message|end|call)\|>"),
    "default_api.": re.compile(r"\bdefault_api\.\w"),
}
SHARE = 0.1
"""The share of replies above which a run says so."""


def leaked(completion: Completion) -> str:
    """The kind of markup that leaked into a reply; empty if none did."""
    names = " ".join(call.name for call in completion.tool_calls)
    text = f"{completion.text} {names}"
    return next((kind for kind, pattern in _MARKUP.items() if pattern.search(text)), "")


def leak_notes(leaks: Counter[str], replies: int) -> Iterator[str]:
    """A line about markup in more than a tenth of the replies, with what the server lacks."""
    for kind, count in leaks.most_common(1):
        if count > SHARE * replies:
            yield (
                f"{count:,} of {replies:,} replies contain markup that the server should have read, such as {kind}: "
                f"it lacks {_PARSERS[kind]}"
            )
