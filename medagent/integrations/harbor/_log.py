"""The log of a container's one episode: JSON lines with one exchange each, and the answers in the last line. A write's
line lists the resources that it wrote, as they were before all writes, and as they are after it.

Only the server's user can write it. Each line is written before the client gets the response.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from pydantic import BaseModel, ConfigDict

from fhir_server.episodes import Exchange, Replaced
from medagent.core.errors import UserError
from medagent.fhir_data.embedded import changes_of
from refsol.changes import Change
from refsol.files import InputFile
from refsol.schema import validator


class LogLine(BaseModel):
    """A request to the record with its response, or (last line) the answers as they were sent."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    exchange: Exchange | None = None
    replaced: list[tuple[str, str, str | None, str | None]] = []
    """See `Overlay.replaced`, of what this exchange wrote."""
    answers: str | None = None


class LogWriter:
    """Writes a new log. Raises UserError if the file exists or cannot be made."""

    def __init__(self, path: Path) -> None:
        try:
            self._file: TextIO = path.open("x", encoding="utf-8", newline="\n")
        except OSError as error:
            raise UserError(f"{path}: cannot be made: {error.strerror}") from None

    def exchange(self, done: Exchange, replaced: Callable[[], Replaced]) -> None:
        """Add a request and its response; `replaced` lists what the episode has changed so far. Raises OSError."""
        written = {(version.type, version.id) for version in done.stored}
        changed = [row for row in replaced() if (row[0], row[1]) in written] if written else []
        stored = [
            {"type": version.type, "id": version.id, "version": version.version, "text": version.text}
            for version in done.stored
        ]
        self._write(
            exchange={
                "method": done.method,
                "target": done.target,
                "body": done.body.decode("utf-8", "replace"),
                "status": done.status,
                "answer": done.answer.decode("utf-8", "replace"),
                "stored": stored,
            },
            replaced=changed,
        )

    def answers(self, text: str) -> None:
        """Add the answers, which end the log. Raises OSError."""
        self._write(answers=text)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, **line: object) -> None:
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()


@dataclass(frozen=True, slots=True)
class EpisodeLog:
    """The exchanges, what they changed, and the answers (None: the episode was not finished)."""

    exchanges: list[Exchange]
    changes: list[Change]
    answers: str | None


def read_log(path: Path) -> EpisodeLog:
    """The log of an episode.

    An incomplete last line is ignored, since a container may be stopped at any time. Raises UserError.
    """
    exchanges: list[Exchange] = []
    replaced: dict[tuple[str, str], tuple[str, str, str | None, str | None]] = {}
    answers = None
    with InputFile(path, expected="the log of an episode is expected", error=UserError) as file:
        for _, line in file.json_lines(validator(LogLine), torn_tail=True):
            if line.exchange is not None:
                exchanges.append(line.exchange)
            replaced.update({(row[0], row[1]): row for row in line.replaced})
            answers = line.answers
    return EpisodeLog(exchanges, changes_of(replaced.values()), answers)
