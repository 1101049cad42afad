"""The agent's reply: its result, its POSTs, and the fields of each post.

`ReplyFault` means that the published grader would fail on a post because it cannot read it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from refsol.history import Post
from refsol.verdict import show

_STOPS = ("stopped", "cancelled", "completed", "entered-in-error")
"""Statuses of a MedicationRequest that stop a drug."""


class ReplyFault(ValueError):
    """A post cannot be graded. The text names the post and the reason; `check` is the name of the failed check."""

    def __init__(self, text: str, check: str = "readable") -> None:
        super().__init__(text)
        self.check = check


@dataclass(frozen=True, slots=True)
class Placed:
    """One accepted post: its number (from 1), its URL and its JSON."""

    number: int
    url: str
    payload: Any

    def field(self, name: str, default: Any = None) -> Any:
        """A field of the payload. Raises ReplyFault if the payload is not an object."""
        if not isinstance(self.payload, dict):
            raise ReplyFault(f"post {self.number} is {show(self.payload)}, not an object")
        return self.payload.get(name, default)

    @property
    def kind(self) -> Any:
        """`resourceType`. Raises ReplyFault."""
        return self.field("resourceType")

    def word(self, name: str) -> str:
        """A field in lower case. Empty if it is missing. Raises ReplyFault if it is not text."""
        value = self.field(name, "")
        if not isinstance(value, str):
            raise ReplyFault(f"post {self.number}: {name} is {show(value)}, not text")
        return value.lower()

    def is_about(self, patient: str) -> bool:
        """Whether `subject` is exactly this patient's reference. Raises ReplyFault."""
        return bool(self.field("subject") == {"reference": f"Patient/{patient}"})

    def misfit(self, patient: str) -> str | None:
        """The first wrong field of an order (status, intent or subject), as text. None if all are right.

        Raises ReplyFault.
        """
        for name, right in (("status", "active"), ("intent", "order")):
            if self.word(name) != right:
                return f"{name} {show(self.field(name))}"
        return None if self.is_about(patient) else f"subject {show(self.field('subject'))}"

    def not_a_stop(self) -> str | None:
        """The status, as text, if it does not stop a drug; None if it does. Raises ReplyFault."""
        return None if self.word("status") in _STOPS else f"status {show(self.field('status'))}"

    def text(self, name: str | None = None) -> str:
        """`str()` of the payload, or of one field (`{}` if it is missing). Raises ReplyFault."""
        value = self.payload if name is None else self.field(name, {})
        try:
            return str(value)
        except RecursionError:
            raise ReplyFault(f"post {self.number} is nested too deeply to be read") from None

    def concept_text(self) -> str:
        """`medicationCodeableConcept.text` in lower case. Empty if it is missing. Raises ReplyFault."""
        concept = self.field("medicationCodeableConcept")
        text = concept.get("text", "") if isinstance(concept, dict) else None
        if not isinstance(text, str):
            raise ReplyFault(
                f"post {self.number}: medicationCodeableConcept is {show(concept)}, not an object with a text"
            )
        return text.lower()


@dataclass(frozen=True, slots=True)
class Reply:
    """The agent's reply. `attempted`: at least one message is a POST. `unanswered`: the last message is a POST."""

    result: Any
    attempted: bool
    unanswered: bool
    accepted: tuple[Post, ...]

    @property
    def posts(self) -> list[Placed]:
        """The accepted posts. Raises ReplyFault if the history ends with a POST: its reply is missing then."""
        if self.unanswered:
            raise ReplyFault("the last message is a POST that nothing followed", "last message")
        return [Placed(number, post.url, post.payload) for number, post in enumerate(self.accepted, 1)]
