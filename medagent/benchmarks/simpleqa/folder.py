"""The files of a run: the questions it asked, the answers, the judgings, the judgements; read without writing.

`questions.jsonl` is a copy of the data in the run's order, so that a run can be judged and scored by itself; its gold
is that of the last `medagent run simpleqa`. Answers and judgements are journals of the run engine.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from medagent.agents.base import Move
from medagent.benchmarks.simpleqa.judging import Judging, Question, Verdicts, judged_rows
from medagent.core.errors import UserError
from medagent.engine.files import write_changed
from medagent.engine.journal import checked_lines, parsed_line
from medagent.engine.journal_file import JournalFile
from refsol.simpleqa.data import GoldQuestion
from refsol.simpleqa.score import JudgedSet

T = TypeVar("T")


class _Reply(BaseModel):
    """What of a journal's row counts here; a later row of the same unit replaces an earlier one."""

    unit: str
    reply: str | None = None
    status: str = ""
    reasoning: str | None = None
    finish_reason: str | None = None
    model: str = ""


_QUESTION, _JUDGING = TypeAdapter(Question), TypeAdapter(Judging)


class RunFiles:
    """The files in the folder of a run. What is missing is empty. Raises UserError naming a line that is damaged."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.answers_path = path / "episodes.jsonl"
        self.judgements_path = path / "judgements.jsonl"

    def exist(self) -> bool:
        """Whether the folder is a run of `medagent run simpleqa`."""
        return (self.path / "questions.jsonl").is_file() and (self.path / "run.json").is_file()

    def settings(self) -> dict[str, Any]:
        """What the run was made with. Raises UserError where `run.json` is damaged."""
        try:
            settings: dict[str, Any] = json.loads((self.path / "run.json").read_text(encoding="utf-8"))["settings"]
        except (OSError, ValueError, KeyError, TypeError):
            raise UserError(f"{self.path / 'run.json'}: is damaged; choose another --round, or --overwrite") from None
        return settings

    def questions(self) -> list[Question]:
        """The questions of the run."""
        return list(_lines(self.path / "questions.jsonl", _QUESTION))

    def gold_questions(self) -> list[GoldQuestion]:
        """The questions by the name that their rows have, each once."""
        found = {
            one.name: GoldQuestion(one.name, one.line, one.question, one.gold, one.group) for one in self.questions()
        }
        return list(found.values())

    def keep_questions(self, questions: Iterable[Question]) -> None:
        """Write the questions of the run."""
        _write(self.path / "questions.jsonl", questions, _QUESTION)

    def judgings(self) -> list[Judging]:
        """The rounds of judging, the latest last."""
        return list(_lines(self.path / "judgings.jsonl", _JUDGING))

    def add_judging(self, judging: Judging) -> None:
        """Add a round of judging, unless it is the latest one already; without its judges' addresses."""
        judges = [judge.model_copy(update={"base_urls": [], "api_key_env": {}}) for judge in judging.judges]
        judging = judging.model_copy(update={"judges": judges})
        judgings = self.judgings()
        if judgings[-1:] != [judging]:
            _write(self.path / "judgings.jsonl", [*judgings, judging], _JUDGING)

    def answers(self) -> dict[str, str]:
        """The model's replies by unit."""
        return {row.unit: row.reply for row in _replies(self.answers_path) if row.reply is not None}

    def moves(self) -> dict[str, Move]:
        """The same as the moves that they were."""
        rows = (row for row in _replies(self.answers_path) if row.reply is not None)
        return {row.unit: Move(row.reply or "", row.reasoning, finish_reason=row.finish_reason) for row in rows}

    def verdicts(self) -> Verdicts:
        """The judges' replies."""
        return Verdicts((row.unit, row.reply) for row in _replies(self.judgements_path))

    def judges(self) -> list[str]:
        """The names of all judges that the run has had."""
        return sorted({judge.name for judging in self.judgings() for judge in judging.judges})

    def judged_set(self, judge: str | None = None) -> JudgedSet:
        """The run's rows to score: as judged last, or as judged by one judge."""
        settings, judgings = self.settings(), self.judgings()
        if judge is not None and judge not in self.judges():
            raise UserError(f"{self.path}: has no judge {judge}; it has {', '.join(self.judges())}")
        questions = self.questions()
        decided = list(judged_rows(questions, self.answers(), judgings, self.verdicts(), judge))
        return JudgedSet(
            model=next((row.model for row in _replies(self.answers_path)), None) or str(settings.get("model")),
            dataset=str(settings.get("variant")),
            rows=tuple(row for row, _ in decided),
            json_labels=any(panel.json_labels for panel in {panel for _, panel in decided} if panel is not None),
            warnings=tuple(shared_ids(questions)),
        )


def shared_ids(questions: Iterable[Question]) -> list[str]:
    """A warning where several questions share an id."""
    shared = sorted({question.id for question in questions if question.name != question.id})
    return [f"ids that several questions share, told apart by their line: {', '.join(shared)}"] if shared else []


def _replies(journal: Path) -> Iterator[_Reply]:
    """Every call that was made; one that was cancelled was not."""
    if not journal.exists():
        return
    with closing(JournalFile(journal, writable=False)) as file:
        for line in checked_lines(file):
            row = parsed_line(journal, line, _Reply)
            if row.status != "cancelled":
                yield row


def _lines(path: Path, kind: TypeAdapter[T]) -> Iterator[T]:
    """The lines of a file; a last one without its newline was torn off by a crash, or is being written."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            try:
                yield kind.validate_json(line)
            except ValidationError:
                raise UserError(f"{path}:{number}: is damaged; mend or remove that line") from None


def _write(path: Path, rows: Iterable[T], kind: TypeAdapter[T]) -> None:
    write_changed(path, "".join(kind.dump_json(row).decode() + "\n" for row in rows))
