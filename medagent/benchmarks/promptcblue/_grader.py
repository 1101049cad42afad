"""Score answers of PromptCBLUE: each line alone, then the official figures from the lines' contributions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from medagent.agents.unusable import count_unusable
from medagent.benchmarks.promptcblue._items import LineItem, data_of, gold_of
from medagent.benchmarks.promptcblue._rows import LineRow
from medagent.benchmarks.promptcblue._tables import trial_table
from medagent.benchmarks.promptcblue.settings import PromptcblueSettings
from medagent.core.writing import file_digest
from medagent.engine.scores import Figures, Grader, Score, Scored
from medagent.models.wording import strip_thinking
from refsol.errors import InputError
from refsol.promptcblue.parse import Edition, LineError, parse_answer
from refsol.promptcblue.score import Scores, sample_part, sample_score, task_score
from refsol.promptcblue.tasks import TaskSpec


class LineGrader(Grader[LineRow]):
    """Parses and scores by the official rules. Without a gold, nothing is scored. Raises UserError, ProblemsError."""

    def __init__(self, source: PromptcblueSettings) -> None:
        self._source = source
        self._data = data_of(source)
        self._gold = gold_of(source)
        self._specs: Mapping[str, TaskSpec] = {task.name: task for task in self._data.tasks}

    @property
    def digests(self) -> Mapping[str, str]:
        """See `Grader.digests`."""
        gold = self._source.right_answers
        return {"data": self._data.digest, **({"gold": file_digest(gold)} if gold else {})}

    def score(self, item: LineItem, row: LineRow, judged: Any = None) -> Score:
        """See `Grader.score`."""
        text = answer_text(row, self._source)
        thinking = {"thinking": True} if not self._source.strip_thinking and strip_thinking(text) != text else {}
        if self._gold is None or item.id not in self._gold:
            return Score(part=thinking)
        spec = self._specs[item.group]
        try:
            parsed = parse_answer(item.group, text, item.line.value.get("answer_choices"), self._data.edition)
            part = sample_part(spec, self._gold[item.id], parsed)
        except (LineError, InputError) as error:
            return Score(reason=str(error), part=thinking, graded=False)
        return Score(value=sample_score(spec, part), part={"sample": part, **thinking})

    def figures(self, scores: Sequence[Scored]) -> Figures:
        """See `Grader.figures`."""
        unusable = count_unusable(((one.unit, one.status) for one in scores), self._source.allowed)
        notes = [*unusable.notes, *self._thinking(scores)]
        fault = unusable.fault or self._too_much_thinking(scores)
        if owed := sum(one.score is None for one in scores):
            notes.append(f"{owed} of {len(scores)} lines are owed, so nothing was parsed or scored.")
        if owed or not scores:
            return Figures(notes=notes, unusable=fault)
        if self._gold is None:
            return Figures(notes=["Not scored: there is no gold; pass it with --gold FILE.", *notes], unusable=fault)
        trials = official_scores(scores, self._data.tasks, self._data.edition)
        if not all(trial.tasks for trial in trials):
            return Figures(notes=["Not scored: the gold file has no answers for these lines.", *notes], unusable=fault)
        table = trial_table(trials)
        return Figures(
            table=table,
            overall=table[-1].lines[0],
            notes=[*map(str, self._data.warnings), *notes],
            unusable=fault,
            measure="points",
            figure="F1 or R-L",
            details={"scores": trials[0].to_json(details=True)},
        )

    def _thinking(self, scores: Sequence[Scored]) -> list[str]:
        units = _thinking_units(scores)
        if not units:
            return []
        return [
            f"{len(units)} of {len(scores)} answers begin with a <think> block, which is scored as part of the answer "
            f"(first: {units[0]}); to remove it, run again with --strip-thinking and another --round"
        ]

    def _too_much_thinking(self, scores: Sequence[Scored]) -> str:
        units = _thinking_units(scores)
        return f"{len(units)} answers keep their thinking" * (len(units) > self._source.allowed * len(scores))


def answer_text(row: LineRow, source: PromptcblueSettings) -> str:
    """The text of an answer that is scored."""
    answer = row.answer or ""
    return strip_thinking(answer) if source.strip_thinking else answer


def official_scores(scores: Sequence[Scored], tasks: Sequence[TaskSpec], edition: Edition) -> list[Scores]:
    """The official scores of each trial, from its lines' contributions. No tasks if no line has one."""
    trials = []
    for trial in sorted({one.trial for one in scores}):
        parts: dict[str, list[Any]] = {task.name: [] for task in tasks}
        for one in scores:
            if one.trial == trial and one.score is not None and "sample" in one.score.part:
                parts[one.item.group].append(one.score.part["sample"])
        scored = tuple(task_score(task, parts[task.name]) for task in tasks if parts[task.name])
        trials.append(Scores(scored, False, edition=edition))
    return trials


def _thinking_units(scores: Sequence[Scored]) -> list[str]:
    return [
        one.unit for one in scores if one.status == "completed" and one.score and (one.score.part or {}).get("thinking")
    ]
