"""The files of a run: its questions, the answers and the judgements. They are only read here.

`questions.jsonl` is a copy of the data in the run's order, so that a run can be judged and scored without the data. Its
gold comes from the last `medagent run simpleqa`. Answers and judgements are journals of the run engine.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from medagent.benchmarks.judge_labels import Place
from medagent.benchmarks.simpleqa._rubric import SimpleqaRubric
from medagent.core.errors import UserError
from medagent.core.writing import write_changed
from medagent.engine.folder import read_run
from medagent.engine.plan import JOURNAL
from medagent.judging.judging import Judging
from medagent.judging.panel import Panel
from medagent.judging.rows import replies_in, stored_lines
from medagent.judging.rubric import Subject
from refsol.simpleqa.data import GoldQuestion
from refsol.simpleqa.opencompass import is_opencompass, read_opencompass
from refsol.simpleqa.prompts import JudgePrompt
from refsol.simpleqa.score import JudgedAnswer, JudgedSet
from refsol.simpleqa.verdict import RULES


@dataclass(frozen=True, slots=True)
class Question:
    """A question in one language: a line of `questions.jsonl`. `unit` is its key in the journal of answers."""

    unit: str
    id: str
    language: str
    line: int
    question: str
    gold: str
    group: str

    @property
    def target(self) -> str:
        """The right answer, under the name that items use."""
        return self.gold

    @property
    def name(self) -> str:
        """The id, with the line number if several questions share it."""
        ending = f"/{self.language}"
        if self.unit.endswith(ending):  # the first trial, the usual case
            return self.unit[: -len(ending)]
        return self.unit.removesuffix(f"#{self.trial}").removesuffix(ending)

    @property
    def trial(self) -> int:
        """The trial, from the unit: `H01/hu#2` is the second."""
        _, mark, number = self.unit.rpartition(f"/{self.language}#")
        return int(number) if mark and number.isdigit() else 1


_QUESTION = TypeAdapter(Question)


class RunFiles:
    """The files in a run's folder. A missing file counts as empty. Raises UserError for a damaged line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.judging = Judging(path, SimpleqaRubric())

    def exist(self) -> bool:
        """Whether the folder is a run of `medagent run simpleqa`."""
        return (self.path / "questions.jsonl").is_file() and (self.path / "run.json").is_file()

    def questions(self) -> list[Question]:
        """The questions of the run."""
        return stored_lines(self.path / "questions.jsonl", _QUESTION)

    def gold_questions(self) -> list[GoldQuestion]:
        """The questions by the names in their rows, each once."""
        questions = {
            question.name: GoldQuestion(question.name, question.line, question.question, question.gold, question.group)
            for question in self.questions()
        }
        return list(questions.values())

    def keep_questions(self, questions: Iterable[Question]) -> None:
        """Write the questions of the run."""
        write_changed(
            self.path / "questions.jsonl",
            "".join(_QUESTION.dump_json(question).decode() + "\n" for question in questions),
        )

    def subjects(self) -> Iterator[Subject]:
        """The answers to judge, in the order of the questions."""
        return _subjects(self.questions(), self._answers())

    def _answers(self) -> dict[str, str]:
        return {row.unit: row.reply for row in replies_in(self.path / JOURNAL) if row.reply is not None}

    def judged_set(self, judge: str | None = None) -> JudgedSet:
        """The run's rows to score: under the latest judgement, or by one judge."""
        return self.judged(judge)[0]

    def judged(self, judge: str | None = None) -> tuple[JudgedSet, Collection[Panel[JudgePrompt]]]:
        """The same with the panels that decide rows; the panel of the first row comes first."""
        settings, judges = read_run(self.path)["settings"], self.judging.judges()
        if judge is not None and judge not in judges:
            raise UserError(f"{self.path}: unknown judge {judge}; its judges: {', '.join(judges)}")
        questions, answers = self.questions(), self._answers()
        judged: dict[str, dict[str, str | None]] = {}
        panels: dict[int, Panel[JudgePrompt]] = {}
        for decision in self.judging.decisions(_subjects(questions, answers), judge):
            if decision.judged.made:
                judged[decision.subject.unit] = decision.judged.replies
                panels[id(decision.panel)] = decision.panel
        rows = JudgedSet(
            model=next((row.model for row in replies_in(self.path / JOURNAL)), None) or str(settings.get("model")),
            dataset=str(settings.get("variant")),
            rows=tuple(
                JudgedAnswer(
                    question.name,
                    question.language,
                    question.group,
                    answers.get(question.unit),
                    judged.get(question.unit, {}),
                )
                for question in questions
            ),
            json_labels=any(panel.prompt.labels == "json" for panel in panels.values()),
            warnings=tuple(shared_ids(questions)),
            rule=next((rule for panel in panels.values() for rule in RULES if rule == panel.rule), RULES[0]),
        )
        return rows, panels.values()


def _subjects(questions: Iterable[Question], answers: Mapping[str, str]) -> Iterator[Subject]:
    for question in questions:
        if (answer := answers.get(question.unit)) is not None:
            yield Subject(question.unit, question, answer, (question.id, question.name))


def shared_ids(questions: Iterable[Question]) -> list[str]:
    """A warning if several questions share an id."""
    shared = sorted({question.id for question in questions if question.name != question.id})
    return [f"several questions share an id; they are distinguished by line: {', '.join(shared)}"] if shared else []


def judged_sets(text: str, items: Sequence[GoldQuestion] | None = None) -> list[JudgedSet]:
    """The judged sets at a path: a run folder, or an OpenCompass folder or file. `FOLDER@JUDGE` selects one judge.

    Raises UserError if the path is none of these, and InputError if a part is missing or damaged.
    """
    place = Place.of(text)
    files = RunFiles(place.path)
    if files.exist():
        return [files.judged_set(place.judge)]
    if not is_opencompass(place.path):
        raise UserError(f"{place.path}: neither a run of `medagent run simpleqa` nor an output folder of OpenCompass")
    sets = [
        judged for judged in read_opencompass(place.path, items) if place.judge is None or place.judge in judged.judges
    ]
    if not sets:
        raise UserError(f"{place.path}: unknown judge {place.judge}")
    return sets
