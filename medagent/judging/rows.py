"""A call to a judge, as a row of `judgements.jsonl`: the whole exchange."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Self, TypeVar

from pydantic import BaseModel, TypeAdapter

from medagent.agents.calls import Call, ReplyRow
from medagent.core.errors import UserError
from medagent.core.writing import inside
from medagent.engine.journal import JournalFile, checked_lines, parsed_line
from refsol.files import DuplicateKeyError, check_keys

T = TypeVar("T")
JUDGEMENTS = "judgements.jsonl"
"""The journal of judgements."""


class ExchangeRow(ReplyRow):
    """A message to a model and its reply, None if the call failed."""

    model: str
    message: str

    @classmethod
    def begin(cls, unit: Call) -> Self:
        return cls(unit=unit.key, status="completed", model=unit.model, message=unit.message)

    @property
    def payee(self) -> str:
        return self.model


class JudgeReply(BaseModel):
    """The part of an `ExchangeRow` for reading many rows. A later row of the same unit replaces an earlier one."""

    unit: str
    status: str
    model: str = ""
    reply: str | None = None
    reasoning: str | None = None
    finish_reason: str | None = None


def replies_in(journal: Path) -> Iterator[JudgeReply]:
    """Every call in a journal, in order. A cancelled call does not count as made. A missing file counts as empty.

    Raises UserError for a damaged line.
    """
    if not journal.exists():
        return
    with closing(JournalFile(journal, writable=False)) as file:
        for line in checked_lines(file):
            reply = parsed_line(journal, line, JudgeReply)
            if reply.status != "cancelled":
                yield reply


def stored_lines(path: Path, kind: TypeAdapter[T]) -> list[T]:
    """The values of a file of JSON lines. A missing file is empty. A last line without a newline is ignored: it was not
    written completely. Raises UserError for a damaged line.
    """
    values = []
    lines = path.read_bytes().splitlines(keepends=True) if inside(path).exists() else []
    for number, line in enumerate(lines, 1):
        if line.endswith(b"\n"):
            try:
                check_keys(line)
                values.append(kind.validate_json(line))
            except DuplicateKeyError as error:
                raise UserError(f"{path}:{number}: is damaged ({error}); repair or remove that line") from None
            except (ValueError, RecursionError):
                raise UserError(f"{path}:{number}: is damaged; repair or remove that line") from None
    return values
