"""The wordings of imapScore's prompts, as data: `prompts.toml` beside this module."""

from __future__ import annotations

import hashlib
import tomllib
from pathlib import Path

from pydantic import BaseModel, ConfigDict


class Prompts(BaseModel):
    """Templates with their fields in braces; `medagent.models.wording.fill` fills them in."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    question: str
    """The question imap: {question}."""
    answer: str
    """The imap of a label or a response: {question}, {terms} (a line each), {answer}."""
    relations: str
    """The relations between their values: {question}, {values}."""
    values: str
    """One term of {values}: {term}, {label} and {response} (numbered, a line each)."""
    g_eval: str
    """A rating from 1 to 5: {question}, {label}, {response}."""

    @property
    def digest(self) -> str:
        """SHA-256 over all of it."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()


def load_prompts() -> Prompts:
    """The project's wordings."""
    path = Path(__file__).with_name("prompts.toml")
    return Prompts(**{name: text.strip() for name, text in tomllib.loads(path.read_text(encoding="utf-8")).items()})
