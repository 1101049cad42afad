"""The files of a run: the questions it asked, the answers, the judgements; read without writing.

`questions.jsonl` is a copy of the data in the run's order, so that a run can be judged and scored by itself; its gold
is that of the last `medagent run simpleqa`. Answers and judgements are journals of the run engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from medagent.agents.base import Move
from medagent.benchmarks.simpleqa.rubric import SimpleqaRubric
from medagent.core.errors import UserError
from medagent.engine.files import write_changed
from medagent.engine.folder import read_settings
from medagent.engine.journal import last_rows
from medagent.judging.judging import Decision, Judging
from medagent.judging.rows import ExchangeRow
from medagent.judging.rubric import Subject
from refsol.simpleqa.data import GoldQuestion
from refsol.simpleqa.prompts import JudgePrompt
from refsol.simpleqa.score import JudgedAnswer, JudgedSet


@dataclass(frozen=True, slots=True)
class Question:
    """A question in one language, as a line of `questions.jsonl`; `unit` is its key in the journal of answers."""

    unit: str
    id: str
    language: str
    line: int
    question: str
    gold: str
    group: str

    @property
    def name(self) -> str:
        """The id, with the line where several questions share it."""
        ending = f"/{self.language}"
        if self.unit.endswith(ending):  # of the first trial, as most are
            return self.unit[: -len(ending)]
        return self.unit.removesuffix(f"#{self.trial}").removesuffix(ending)

    @property
    def trial(self) -> int:
        """The trial, by the unit: `H01/hu#2` is the second."""
        _, mark, number = self.unit.rpartition(f"/{self.language}#")
        return int(number) if mark and number.isdigit() else 1


_QUESTION = TypeAdapter(Question)


class RunFiles:
    """The files in the folder of a run. What is missing is empty. Raises UserError naming a line that is damaged."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.judging = Judging(path, SimpleqaRubric())

    def exist(self) -> bool:
        """Whether the folder is a run of `medagent run simpleqa`."""
        return (self.path / "questions.jsonl").is_file() and (self.path / "run.json").is_file()

    def questions(self) -> list[Question]:
        """The questions of the run. A last line without its newline was cut off by a crash, or is being written."""
        path = self.path / "questions.jsonl"
        questions = []
        for number, line in enumerate(path.read_bytes().splitlines(keepends=True) if path.exists() else (), 1):
            if line.endswith(b"\n"):
                try:
                    questions.append(_QUESTION.validate_json(line))
                except ValidationError:
                    raise UserError(f"{path}:{number}: is damaged; repair or remove that line") from None
        return questions

    def gold_questions(self) -> list[GoldQuestion]:
        """The questions by the name that their rows have, each once."""
        found = {
            one.name: GoldQuestion(one.name, one.line, one.question, one.gold, one.group) for one in self.questions()
        }
        return list(found.values())

    def keep_questions(self, questions: Iterable[Question]) -> None:
        """Write the questions of the run."""
        write_changed(
            self.path / "questions.jsonl", "".join(_QUESTION.dump_json(one).decode() + "\n" for one in questions)
        )

    @cached_property
    def answers(self) -> dict[str, ExchangeRow]:
        """The calls of the model by unit; one that was cancelled was not made."""
        path = self.path / "episodes.jsonl"
        rows = last_rows(path, ExchangeRow) if path.exists() else ()
        return {row.unit: row for row in rows if row.status != "cancelled"}

    def moves(self) -> dict[str, Move]:
        """The model's replies by unit."""
        return {
            row.unit: Move(row.reply, row.reasoning, finish_reason=row.finish_reason)
            for row in self.answers.values()
            if row.reply is not None
        }

    def subjects(self) -> Iterator[Subject]:
        """The answers to judge, in the order of the questions."""
        for question in self.questions():
            row = self.answers.get(question.unit)
            if row is not None and row.reply is not None:
                yield Subject(question.unit, question, row, ids=(question.id, question.name))

    def judged_set(self, judge: str | None = None) -> JudgedSet:
        """The run's rows to score: as judged last, or as judged by one judge."""
        settings, judges = read_settings(self.path), self.judging.judges()
        if judge is not None and judge not in judges:
            raise UserError(f"{self.path}: has no judge {judge}; it has {', '.join(judges)}")
        questions = self.questions()
        decisions = {one.subject.unit: one for one in self.judging.decisions(self.subjects(), judge)}
        return JudgedSet(
            model=next((row.model for row in self.answers.values()), None) or str(settings.get("model")),
            dataset=str(settings.get("variant")),
            rows=tuple(self._judged_answer(one, decisions.get(one.unit)) for one in questions),
            json_labels=any(one.panel.prompt.labels == "json" for one in decisions.values() if one.judged.made),
            warnings=tuple(shared_ids(questions)),
        )

    def _judged_answer(self, question: Question, decision: Decision[JudgePrompt] | None) -> JudgedAnswer:
        row = self.answers.get(question.unit)
        return JudgedAnswer(
            id=question.name,
            language=question.language,
            group=question.group,
            prediction=None if row is None else row.reply,
            judged=decision.judged.replies if decision is not None and decision.judged.made else {},
        )


def shared_ids(questions: Iterable[Question]) -> list[str]:
    """A warning where several questions share an id."""
    shared = sorted({question.id for question in questions if question.name != question.id})
    return [f"ids that several questions share, told apart by their line: {', '.join(shared)}"] if shared else []
