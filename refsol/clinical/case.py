"""What a comparison knows of its task. A `Chart` is a case; the interface breaks the circle between both."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Protocol


class Rules(Protocol):
    """The parts of a rule set that meanings and orders ask for. See `RuleSet`."""

    @property
    def name(self) -> str:
        """The name: `official`, `fair`."""

    @property
    def lenient(self) -> bool:
        """Whether the own forms of a meaning count."""

    @property
    def urls(self) -> bool:
        """Whether URLs and times of orders are compared."""

    def look(self, payload: Any, path: str, /) -> Any:
        """The value at a path of a payload."""

    def accepts(self, meaning: Any, actual: Any, case: Any, /) -> bool:
        """Whether a value has a meaning."""

    def is_answer(self, accepted: Any, actual: Any, case: Any, /) -> bool:
        """Whether an answer is an accepted one."""


class Case(Protocol):
    """A task: its patient, its clock, the base URL of orders, and the rules."""

    @property
    def patient(self) -> str:
        """The id of the Patient."""

    @property
    def now(self) -> datetime:
        """The clock."""

    @property
    def base(self) -> str:
        """The FHIR base URL, with a slash at its end."""

    @property
    def rules(self) -> Rules:
        """The rule set."""

    def mentions(self, text: str, *words: str) -> bool:
        """Whether a text in lower case names one of some words."""
