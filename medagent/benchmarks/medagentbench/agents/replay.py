"""Reads recordings for the agent `replay`: results files, a run's `episodes.jsonl`, lines of `{task_id, actions}`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel

from medagent.core.errors import UserError

if TYPE_CHECKING:
    from refsol.medagentbench.recorded import StoredMessage


class _Message(BaseModel):
    role: str
    content: str


class _Episode(BaseModel):
    task_id: str
    actions: list[str] | None = None
    transcript: list[_Message] = []

    def messages(self) -> list[str]:
        return self.actions if self.actions is not None else [m.content for m in self.transcript if m.role == "agent"]


def recorded_messages(path: Path) -> dict[str, list[str]]:
    """The agent's messages by task id. Raises UserError if the file is of none of the three kinds."""
    if path.suffix == ".jsonl":
        return _from_lines(path)
    from refsol.errors import InputError
    from refsol.medagentbench import read_results

    try:
        results = read_results(path)
    except InputError as error:
        raise UserError(*error.args) from None
    return {item.task_id: _from_item(item.answer, item.post_history) for item in results.results}


def _from_lines(path: Path) -> dict[str, list[str]]:
    from refsol.files import read_jsonl
    from refsol.schema import validator

    expected = "each line must be a recorded episode (task_id, and actions or transcript)"
    rows = read_jsonl(path, validator(_Episode), expected=expected, error=UserError)
    return {episode.task_id: episode.messages() for _, episode in rows}


def _from_item(answer: str | None, history: Sequence[StoredMessage]) -> list[str]:
    """The POSTs, then FINISH. If the last message of the history is the agent's, it ended the episode: no FINISH."""
    messages = [turn.content for turn in history if turn.role == "agent"]
    ended = bool(history) and history[-1].role == "agent"
    return messages if ended or answer is None else [*messages, f"FINISH({answer})"]
