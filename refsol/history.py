"""Attempts and accepted posts in a post history: observed behaviour of the published grader.

An *attempt* is an agent's message with `POST` anywhere in it. It is *accepted* if the next message, whatever its role,
contains the runner's acknowledgement. Lines are split at `\\n` only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

ACCEPTED = "POST request accepted"
"""The runner's acknowledgement, with which the prompts of every protocol begin their reply to a POST."""
_FENCES = ("```tool_code", "```")


class HistoryError(ValueError):
    """The history is not a list of `{"role", "content"}` texts. The message names the first invalid entry."""


class HistoryMessage(NamedTuple):
    """One message of a history."""

    role: str
    content: str

    @property
    def is_attempt(self) -> bool:
        """Whether the published grader counts the message as a POST."""
        return self.role == "agent" and "POST" in self.content

    @property
    def is_post_action(self) -> bool:
        """Whether the message really is a POST: it starts with one, after whitespace and code fences are removed."""
        return self.role == "agent" and self._action.startswith("POST")

    @property
    def get_url(self) -> str | None:
        """The URL if the message is a GET, otherwise None."""
        action = self._action if self.role == "agent" else ""
        return action[len("GET") :].strip() if action.startswith("GET") else None

    @property
    def _action(self) -> str:
        text = self.content.strip()
        for fence in _FENCES:
            text = text.replace(fence, "")
        return text.strip()


class Post(NamedTuple):
    """An accepted post: its URL and its JSON."""

    url: str
    payload: Any


def read_messages(history: Iterable[Any]) -> tuple[HistoryMessage, ...]:
    """The messages of a stored history. Messages that were read before stay as they are. Raises HistoryError."""
    messages = []
    for place, item in enumerate(history):
        if isinstance(item, HistoryMessage):
            messages.append(item)
            continue
        role, content = (item.get("role"), item.get("content")) if isinstance(item, dict) else (None, None)
        if not isinstance(role, str) or not isinstance(content, str):
            raise HistoryError(f"post_history[{place}] is not an object with the texts role and content")
        messages.append(HistoryMessage(role, content))
    return tuple(messages)


def ends_in_attempt(messages: Sequence[HistoryMessage]) -> bool:
    """Whether the last message is an attempt. Then no reply to it can be looked up."""
    return bool(messages) and messages[-1].is_attempt


def extract_posts(messages: Sequence[HistoryMessage], acknowledgement: str) -> tuple[Post, ...]:
    """The attempts that have a JSON payload and are followed by the acknowledgement, in order."""
    posts = (
        _read_post(message.content)
        for message, following in pairwise(messages)
        if message.is_attempt and acknowledgement in following.content
    )
    return tuple(post for post in posts if post is not None)


def sent_posts(messages: Sequence[HistoryMessage]) -> tuple[Post, ...]:
    """The POSTs that have a JSON payload, accepted or not, in order."""
    posts = (_read_post(message.content) for message in messages if message.is_post_action)
    return tuple(post for post in posts if post is not None)


def _read_post(content: str) -> Post | None:
    first, _, rest = content.partition("\n")
    try:
        return Post(first[len("POST") :].strip(), json.loads(rest))
    except (ValueError, RecursionError):
        return None
