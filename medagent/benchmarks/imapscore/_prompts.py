"""The texts of imapScore's prompts, as data (`prompts.toml` next to this module), and the examples of --few-shot."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from medagent.core.errors import UserError
from medagent.models.base import Message
from medagent.models.wording import fill
from refsol.files import InputFile, json_object
from refsol.imapscore.imap import Imap, parse, serialise

_FIELDS = re.compile(r"\{(question|answer|terms|values|term|label|response)\}")


class Prompts(BaseModel):
    """Templates with fields in braces, which `medagent.models.wording.fill` fills in."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    question: str
    """The question imap: {question}."""
    answer: str
    """The imap of a label or a response: {question}, {terms} (one per line), {answer}."""
    relations: str
    """The relations between their values: {question}, {values}."""
    values: str
    """One term of {values}: {term}, {label} and {response} (numbered, one per line)."""
    g_eval: str
    """A rating from 1 to 5: {question}, {label}, {response}."""

    def of_question(self, question: str) -> str:
        """The prompt for a question's imap."""
        return fill(self.question, question=question)

    def of_answer(self, question: str, terms: Sequence[str], answer: str) -> str:
        """The prompt for the imap of an answer to a question with these terms."""
        return fill(self.answer, question=question, terms="\n".join(terms), answer=answer)

    @property
    def digest(self) -> str:
        """SHA-256 over all texts."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()


def load_prompts(path: Path | None = None) -> Prompts:
    """The project's texts, or the texts of a user's file that replace them.

    Raises UserError if the file is not valid.
    """
    bundled = Path(__file__).with_name("prompts.toml")
    texts = tomllib.loads(bundled.read_text(encoding="utf-8"))
    if path is not None:
        try:
            replaced = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise UserError(f"{path}: cannot be read as TOML: {error}") from None
        if odd := sorted(name for name, text in replaced.items() if name not in texts or not isinstance(text, str)):
            raise UserError(f"{path}: {odd[0]}: unknown prompt text, or not a text; known: {', '.join(texts)}")
        for name, text in replaced.items():
            fields = _FIELDS.findall(texts[name])
            if missing := [field for field in dict.fromkeys(fields) if f"{{{field}}}" not in text]:
                raise UserError(f"{path}: {name}: does not contain {{{missing[0]}}}; write it where that text belongs")
        texts |= replaced
    return Prompts(**{name: text.strip() for name, text in texts.items()})


FORM = '{"question": "…", "question_imap": "Query-…-?", "answer": "…", "answer_imap": "Inform-…-…"}'


@dataclass(frozen=True, slots=True)
class ExampleTurns:
    """Conversation turns before the prompts for a question's imap, and before those for an answer's imap."""

    questions: tuple[Message, ...] = ()
    answers: tuple[Message, ...] = ()


NO_EXAMPLES = ExampleTurns()


def read_examples(path: Path, prompts: Prompts) -> ExampleTurns:
    """Read examples from JSON lines; the prompts format them like items. Raises UserError, InputError."""
    questions: list[Message] = []
    answers: list[Message] = []
    with InputFile(path, expected=f"each line must be an example: {FORM}") as file:
        for line, row in file.json_lines(json_object):
            question = _imap(row, "question_imap", ())
            answer = None if question is None else _imap(row, "answer_imap", question.query_terms)
            if question is None or not question.query or not _is_text(row, "question"):
                file.fault("needs a question and a question_imap with a Query", line=line)
                continue
            questions += _turns(prompts.of_question(row["question"]), serialise(question))
            if answer is None and "answer" not in row and "answer_imap" not in row:
                continue
            if answer is None or not (answer.inform or answer.explicit_none) or not _is_text(row, "answer"):
                file.fault("needs an answer and an answer_imap with an Inform or Inform-None", line=line)
                continue
            terms = question.query_terms
            answers += _turns(prompts.of_answer(row["question"], terms, row["answer"]), serialise(answer, terms))
    if not questions:
        raise UserError(f"{path}: contains no examples")
    return ExampleTurns(tuple(questions), tuple(answers))


def _imap(row: Mapping[str, Any], name: str, terms: tuple[str, ...]) -> Imap | None:
    return parse(row[name], terms).imap if _is_text(row, name) else None


def _is_text(row: Mapping[str, Any], name: str) -> bool:
    return isinstance(row.get(name), str) and bool(row[name].strip())


def _turns(prompt: str, reply: str) -> tuple[Message, Message]:
    return Message("user", prompt), Message("assistant", reply)
