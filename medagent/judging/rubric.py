"""What a benchmark defines for judging: queries to a judge, labels, and how a reply is read."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from medagent.core.errors import UserError
from medagent.models.wording import fill, strip_thinking
from refsol.agreement import Labelled

BUNDLED = "bundled"
"""The name of a benchmark's bundled prompt."""


class PromptText(Protocol):
    """A judge prompt: any dataclass or pydantic model with a digest. It is stored in `judgings.jsonl`."""

    @property
    def digest(self) -> str:
        """SHA-256 of the texts, before values are inserted."""


P = TypeVar("P", bound=PromptText)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A judge prompt of one text, or of several by name; `{name}` in a text is a placeholder."""

    texts: Mapping[str, str]

    @classmethod
    def read(cls, path: Path) -> Prompt:
        """The prompt in a TOML file, with one text per name. Raises UserError."""
        try:
            texts = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:  # TOMLDecodeError and UnicodeDecodeError are ValueErrors
            raise UserError(f"{path}: cannot be read as a judge prompt: {error}") from None
        if not texts or not all(isinstance(text, str) for text in texts.values()):
            raise UserError(f"{path}: a judge prompt may contain only texts, such as user = '…'")
        return cls(texts)

    @property
    def digest(self) -> str:
        """SHA-256 of the texts with their names."""
        return _sha256(dict(sorted(self.texts.items())))

    def fill(self, text: str = "user", /, **values: str) -> str:
        """A text with its placeholders replaced once. Braces inside a value are not replaced."""
        return fill(self.texts[text], **values)


@dataclass(frozen=True, slots=True)
class Query:
    """One call to a judge about one answer.

    `name` distinguishes several queries about one answer. `rule` sets how the reply is read; if it is empty, the
    panel's rule applies.
    """

    text: str
    system: str = ""
    name: str = ""
    rule: str = ""


@dataclass(frozen=True, slots=True)
class Subject:
    """One answer to judge: the unit's key in `episodes.jsonl`, its item, and the parts of its row that queries need.

    `ids` are other names that people use, such as the question's id in the data. Several units may share them.
    """

    unit: str
    item: Any
    answer: Any
    ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """An answer with a known label, to check a judge.

    `accepted` are the right labels; the first one is shown. `answer` is the text to judge.
    """

    id: str
    kind: str
    query: Query
    accepted: tuple[str, ...]
    answer: str


class Rubric(ABC, Generic[P]):
    """How a benchmark's answers are judged. It is stateless; the prompt is the panel's."""

    labels: ClassVar[tuple[str, ...]]
    """The labels that a judge gives."""
    rules: ClassVar[tuple[str, ...]] = ("",)
    """The names of the rules for reading replies, the default first."""
    rounds: ClassVar[int] = 1
    """The number of dependent queries about an answer: 2 if the second depends on the first label."""
    retries: ClassVar[int] = 0
    """The number of times that a judge is asked again about one answer within a run after an unreadable reply."""
    bundled: ClassVar[Any]
    """The bundled prompt."""
    prompt_type: ClassVar[type[Any]] = Prompt

    def prompt(self, name: str) -> P:
        """The prompt with a name (`bundled`) or in a file. Raises UserError."""
        prompt: P = self.bundled if name == BUNDLED else self.prompt_type.read(Path(name))
        return prompt

    @abstractmethod
    def queries(self, subject: Subject, prompt: P, labels: Mapping[str, str]) -> Sequence[Query]:
        """The queries to one judge about one answer; empty if no judge is needed.

        `labels` are that judge's labels by query so far. A benchmark with one query can ignore them. With several
        rounds, return the earlier queries as well as those that follow from their labels.
        """

    def read(self, reply: str, rule: str) -> str | None:
        """The label in a judge's reply; None if it cannot be read. By default `only_label`."""
        return only_label(reply, self.labels)

    def verdict(self, reply: str, rule: str) -> str | None:
        """The verdict of a judge's reply; None if the judge must be asked again. By default the label from `read`. A
        rule that gives a verdict for every reply may return another word.
        """
        return self.read(reply, rule)

    def recorded(self, path: Path, rule: str) -> Mapping[str, Sequence[Labelled]]:
        """The labels by judge in another tool's files, read by a rule. Empty if these files are unknown. Raises
        UserError for an unknown rule.
        """
        return {}

    def known_rule(self, name: str) -> str:
        """The rule with this name; an empty name means the default. Raises UserError if it does not exist."""
        if name and name not in self.rules:
            raise UserError(f"--rules {name}: unknown; replies can be read by {', '.join(self.rules) or 'one rule'}")
        return name or self.rules[0]

    def cases(self, prompt: P) -> Sequence[Case]:
        """Answers with known labels for `medagent judge check`; none by default."""
        return ()


def only_label(reply: str, labels: Sequence[str]) -> str | None:
    """The label that a reply states, after reasoning is removed; None if it states none or several.

    Labels are whole words in any case. The longest match counts: `not right` is not `right`.
    """
    alternatives = "|".join(re.escape(label) for label in sorted(labels, key=len, reverse=True))
    stated = {match.lower() for match in re.findall(rf"(?<!\w)(?:{alternatives})(?!\w)", strip_thinking(reply), re.I)}
    return next((label for label in labels if stated == {label.lower()}), None)


def _sha256(value: object) -> str:
    return hashlib.sha256(json.dumps(value, ensure_ascii=True).encode()).hexdigest()
