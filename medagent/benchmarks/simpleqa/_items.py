"""SimpleQA's questions as items: each question in each language of the prompt."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from medagent.benchmarks.simpleqa.settings import SimpleqaSettings
from medagent.engine.scores import Item
from refsol.simpleqa.data import GoldQuestion, duplicate_ids, read_items


@dataclass(frozen=True, kw_only=True)
class QuestionItem(Item):
    """A question in one language. `name` is the question's id, with its line if several rows share the id."""

    name: str
    language: str
    gold: GoldQuestion = field(repr=False)

    @property
    def asked(self) -> QuestionItem:
        """The item as agents see it, without the right answer."""
        return replace(self, target="", gold=replace(self.gold, answer=""))


def question_items(source: SimpleqaSettings) -> Sequence[QuestionItem]:
    """The items of the source's data, question by question. Raises InputError."""
    questions = read_items(source.data, source.variant, encoding=source.encoding)
    shared = duplicate_ids(questions)
    languages = source.languages
    named = [
        (f"{question.id}#{question.line}" if question.id in shared else question.id, question) for question in questions
    ]
    return [
        QuestionItem(
            id=f"{name}/{language}",
            group=question.group,
            cluster=name,
            question=question.question,
            target=question.answer,
            name=name,
            language=language,
            gold=question,
        )
        for name, question in named
        for language in languages
    ]


def questions_digest(source: SimpleqaSettings) -> str:
    """SHA-256 of the questions with their ids; the right answers may be corrected."""
    questions = read_items(source.data, source.variant, encoding=source.encoding)
    return _digest(sorted([question.id, question.question] for question in questions))


def gold_digest(items: Sequence[QuestionItem]) -> str:
    """SHA-256 of the right answers."""
    return _digest(sorted([item.id, item.target] for item in items))


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()
