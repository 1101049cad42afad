"""The log of a container's one episode: JSON lines with one exchange each, and the answers in the last line.

Only the server's user can write it. Each line is written before the client gets the response.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TextIO

from pydantic import BaseModel, ConfigDict

from fhir_server.episodes import Exchange
from medagent.core.errors import UserError
from refsol.files import InputFile
from refsol.schema import validator


class LogLine(BaseModel):
    """A request to the record with its response, or (last line) the answers as they were sent."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    exchange: Exchange | None = None
    answers: str | None = None


class LogWriter:
    """Writes a new log. Raises UserError if the file exists or cannot be made."""

    def __init__(self, path: Path) -> None:
        try:
            self._file: TextIO = path.open("x", encoding="utf-8", newline="\n")
        except OSError as error:
            raise UserError(f"{path}: cannot be made: {error.strerror}") from None

    def exchange(self, done: Exchange) -> None:
        """Add a request and its response. Raises OSError."""
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
            }
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


def read_log(path: Path) -> tuple[list[Exchange], str | None]:
    """The exchanges and the answers. The answers are None if the episode was not finished.

    An incomplete last line is ignored, since a container may be stopped at any time. Raises UserError.
    """
    exchanges: list[Exchange] = []
    answers = None
    with InputFile(path, expected="the log of an episode is expected", error=UserError) as file:
        for _, line in file.json_lines(validator(LogLine), torn_tail=True):
            if line.exchange is not None:
                exchanges.append(line.exchange)
            answers = line.answers
    return exchanges, answers
