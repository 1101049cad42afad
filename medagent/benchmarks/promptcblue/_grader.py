"""Score answers of PromptCBLUE: each line alone, then the official scores from the lines' contributions.

Intervals are bootstraps over samples. A sample is chosen with all its trials, because they are not independent. To
compare two runs, the same samples of each task are chosen from both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from medagent.agents.unusable import count_unusable
from medagent.benchmarks.promptcblue._items import LineItem, LineRow, data_of, gold_of
from medagent.benchmarks.promptcblue.settings import PromptcblueSettings
from medagent.core.writing import file_digest
from medagent.engine.report import TableLine, TableSection
from medagent.engine.scores import Grader, Metrics, Paired, Score, Scored
from medagent.models.wording import strip_thinking
from refsol.errors import InputError
from refsol.promptcblue.parse import Edition, LineError, parse_answer
from refsol.promptcblue.score import Scores, TaskScore, sample_part, sample_score, task_score
from refsol.promptcblue.tasks import TaskSpec
from refsol.promptcblue.tree import TreeFigures
from refsol.stats import percentile


class LineGrader(Grader[LineRow]):
    """Parses and scores by the official rules. Without a gold, nothing is scored. Raises UserError, ProblemsError."""

    def __init__(self, source: PromptcblueSettings) -> None:
        self._source = source
        self._data = data_of(source)
        self._gold = gold_of(source)
        self._specs: Mapping[str, TaskSpec] = {task.name: task for task in self._data.tasks}

    @property
    def digests(self) -> Mapping[str, str]:
        gold = self._source.right_answers
        return {"data": self._data.digest, **({"gold": file_digest(gold)} if gold else {})}

    def score(self, item: LineItem, row: LineRow, judged: Any = None) -> Score:
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

    def metrics(self, scores: Sequence[Scored]) -> Metrics:
        unusable = count_unusable(((score.unit, score.status) for score in scores), self._source.allowed)
        notes = [*unusable.notes, *self._thinking(scores)]
        fault = unusable.fault or self._too_much_thinking(scores)
        if owed := sum(score.score is None for score in scores):
            notes.append(f"{owed} of {len(scores)} lines are owed, so nothing was parsed or scored.")
        if owed or not scores:
            return Metrics(notes=notes, unusable=fault)
        if self._gold is None:
            return Metrics(notes=["Not scored: the gold is missing; pass it with --gold FILE.", *notes], unusable=fault)
        trials = official_scores(scores, self._data.tasks, self._data.edition)
        if not all(trial.tasks for trial in trials):
            return Metrics(
                notes=["Not scored: the gold file contains no answers for these lines.", *notes], unusable=fault
            )
        table = trial_table(trials)
        return Metrics(
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
    """The official scores of each trial, from its lines' contributions. No tasks if no line contributes."""
    trials = []
    for trial in sorted({score.trial for score in scores}):
        parts: dict[str, list[Any]] = {task.name: [] for task in tasks}
        for score in scores:
            if score.trial == trial and score.score is not None and "sample" in score.score.part:
                parts[score.item.group].append(score.score.part["sample"])
        scored = tuple(task_score(task, parts[task.name]) for task in tasks if parts[task.name])
        trials.append(Scores(scored, False, edition=edition))
    return trials


def _thinking_units(scores: Sequence[Scored]) -> list[str]:
    return [
        score.unit
        for score in scores
        if score.status == "completed" and score.score and (score.score.part or {}).get("thinking")
    ]


def trial_table(trials: Sequence[Scores]) -> list[TableSection]:
    """The tasks, and the overall score in a separate section."""
    draws = mean_draws(trials)
    lines = []
    for number, first in enumerate(trials[0].tasks):
        mains = [scores.tasks[number].main for scores in trials]
        known = [main for main in mains if main is not None]
        value = sum(known) / len(known) if known else None
        name = f"{first.task.name} {first.metric}"
        interval = _ends(draws.get(first.task.name))
        lines.append(TableLine(name=name, n=first.samples, value=value, interval=interval, more=_more(first, trials)))
    whole = trials[0]
    overall = TableLine(
        name=whole.overall_name,
        n=sum(task.samples for task in whole.tasks),
        value=sum(scores.overall for scores in trials) / len(trials),
        interval=_ends(overall_draws(draws)),
    )
    title = f"PromptCBLUE ({whole.edition.name})"
    if len(trials) > 1:
        title += f", mean of {len(trials)} trials"
    return [TableSection(lines=tuple(lines), title=title, name="task"), TableSection(lines=(overall,), detail=True)]


def _more(first: TaskScore, trials: Sequence[Scores]) -> dict[str, int | float | None]:
    """The other scores next to the main one, for a single trial."""
    figures = list((first.details() or {}).values())
    if len(figures) != 3 or len(trials) > 1 or isinstance(first.figures, TreeFigures):
        return {}
    return {"P or R-1": figures[0], "R or R-2": figures[1]}


def mean_draws(trials: Sequence[Scores]) -> dict[str, list[float]]:
    """The main score of each task in each bootstrap sample. Each task uses its own seed. Every trial contains the same
    number of samples, so the seed selects the same samples from each.
    """
    means: dict[str, list[float]] = {}
    for number, first in enumerate(trials[0].tasks):
        measured = [scores.tasks[number].measured for scores in trials]
        drawn = [figures.draws(seed=number) for figures in measured if figures is not None]
        if drawn:
            means[first.task.name] = [sum(values) / len(values) for values in zip(*drawn, strict=True)]
    return means


def overall_draws(draws: Mapping[str, Sequence[float]]) -> list[float]:
    """The overall score of each bootstrap sample: the mean of the tasks."""
    return [sum(values) / len(values) for values in zip(*draws.values(), strict=True)]


def _ends(draws: list[float] | None) -> tuple[float, float] | None:
    if not draws:
        return None
    bounds = percentile(draws)
    return bounds.low, bounds.high


def paired_score(
    first: Sequence[Scored], second: Sequence[Scored], tasks: Sequence[TaskSpec], edition: Edition
) -> Paired | None:
    """The official scores of two runs over the lines that both have in all trials; None if there are none."""
    shared = _whole(first) & _whole(second)
    if not shared:
        return None
    runs = [
        official_scores([score for score in run if score.item.id in shared], tasks, edition) for run in (first, second)
    ]
    before, after = (overall_draws(mean_draws(trials)) for trials in runs)
    return Paired(
        name=runs[0][0].overall_name,
        values=(_mean(runs[0]), _mean(runs[1])),
        draws=(before, after),
        items=frozenset(shared),
        measure="points",
    )


def _whole(scores: Sequence[Scored]) -> set[str]:
    """The lines that are scored in every trial."""
    lacking = {score.item.id for score in scores if score.score is None or "sample" not in score.score.part}
    return {score.item.id for score in scores} - lacking


def _mean(trials: Sequence[Scores]) -> float:
    return sum(scores.overall for scores in trials) / len(trials)
