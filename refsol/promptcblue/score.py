"""Score a structured file against its gold: per task and overall.

The official JSON holds only the official metrics over all tasks of the edition. A mean over fewer tasks, or plain
metrics, have other names, so that they are not mistaken for the official score.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

from refsol.errors import InputError
from refsol.files import Encoding
from refsol.promptcblue._metrics import (
    PRF,
    Figures,
    Items,
    Measured,
    Rouge,
    averaged,
    class_part,
    combined_trees,
    extracted_part,
    main_figure,
    mean,
    mean_of_sections,
    micro,
    pairs,
    report_part,
    text_part,
)
from refsol.promptcblue.files import check_pair, read_structured
from refsol.promptcblue.parse import CCKS, Edition, Problem
from refsol.promptcblue.tasks import TASKS, AnswerKind, Average, TaskSpec, is_whole, select_tasks
from refsol.promptcblue.tree import TreeFigures, TreePart, compare_trees
from refsol.stats import Interval, percentile


@dataclass(frozen=True, slots=True)
class TaskScore:
    """The figures of one task and the name of its main figure. `figures` is None if there are no samples."""

    task: TaskSpec
    metric: str
    figures: Figures | None
    measured: Measured[Any] | None = None

    @property
    def samples(self) -> int:
        """The number of scored samples."""
        return 0 if self.measured is None else len(self.measured.parts)

    @property
    def main(self) -> float | None:
        """The main figure, 0 to 1: F1, ROUGE-L or the edit ratio."""
        return None if self.figures is None else main_figure(self.figures)

    def details(self) -> dict[str, float] | None:
        """All figures, 0 to 1, under their official names."""
        match self.figures:
            case TreeFigures(edit_ratio, node_f1, path_f1):
                return {"tree_lenv_radio": edit_ratio, "node_f1": node_f1, "path_f1": path_f1}
            case Rouge(rouge1, rouge2, rouge_l):
                return {"rouge1": rouge1, "rouge2": rouge2, "rougeL": rouge_l}
            case PRF(precision, recall, f1):
                macro = self.task.kind is AnswerKind.CLASSES and self.task.average is Average.MACRO
                prefix = "macro-" if macro else ""
                return {f"{prefix}precision": precision, f"{prefix}recall": recall, f"{prefix}f1": f1}
        return None


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of some tasks in the official order, and the warnings about the files."""

    tasks: tuple[TaskScore, ...]
    plain: bool
    warnings: tuple[Problem, ...] = ()
    edition: Edition = CCKS

    @property
    def official(self) -> bool:
        """Whether these are the official metrics over all tasks of the edition."""
        return not self.plain and is_whole([score.task for score in self.tasks])

    @property
    def overall(self) -> float:
        """The mean of the main figures, 0 to 1."""
        figures = self._main_figures()
        return sum(figures) / len(figures)

    @property
    def overall_name(self) -> str:
        """The name of the overall figure: `score` only for the official one."""
        count = len(self._main_figures())
        name = (
            "score" if is_whole([score.task for score in self.tasks]) else f"mean of {count} task{'s' * (count != 1)}"
        )
        return f"plain {name}" if self.plain else name

    def intervals(self, draws: int = 1000) -> dict[str, Interval]:
        """95 % bootstrap intervals over samples, 0 to 1: each task's by its name, and the overall one by its own name.

        Takes some seconds for the full test set. Tasks without samples are left out.
        """
        measured = {score.task.name: score.measured for score in self.tasks if score.measured is not None}
        # Each task has its own seed: with the same draws in all tasks the overall figure would vary too much.
        drawn = {name: measurement.draws(draws, seed) for seed, (name, measurement) in enumerate(measured.items())}
        overall = [sum(values) / len(values) for values in zip(*drawn.values(), strict=True)]
        return {name: percentile(values) for name, values in {**drawn, self.overall_name: overall}.items()}

    def _main_figures(self) -> list[float]:
        return [score.main for score in self.tasks if score.main is not None]

    def to_json(self, *, details: bool = False) -> dict[str, Any]:
        """The official JSON, figures × 100, not rounded. `details` adds all figures of each task, 0 to 1."""
        name, overall = self.overall_name, 100 * self.overall
        by_task = {f"{score.task.name}-{score.metric}": _percent(score.main) for score in self.tasks}
        value: dict[str, Any] = {"success": True, name: overall, "scoreJson": {**by_task, name: overall}}
        if details:
            all_figures = {score.task.name: score.details() for score in self.tasks}
            value["details"] = {**all_figures, "Overall" if self.official else name: self.overall}
        return value

    def table(self) -> str:
        """A text table, figures × 100. `*` marks the main figure of each task; the last column is its 95 % interval."""
        intervals = self.intervals()
        lines = [f"{'task':<13} {'n':>5} {'metric':<13} {'P or R-1':>8} {'R or R-2':>8} {'F1 or R-L':>9}  {'95%':<15}"]
        for score in self.tasks:
            figures = list((score.details() or {}).values())
            if isinstance(score.figures, TreeFigures):  # the main figure comes last
                figures = [*figures[1:], figures[0]]
            cells = [f"{100 * figure:.2f}" for figure in figures] or ["–", "–", "–"]
            mark = "*" if figures else ""
            lines.append(
                f"{score.task.name:<13} {score.samples:>5} {score.metric:<13} {cells[0]:>8} {cells[1]:>8} "
                f"{mark + cells[2]:>9}  {_range(intervals.get(score.task.name))}"
            )
        total = sum(score.samples for score in self.tasks)
        overall = f"{100 * self.overall:>9.2f}  {_range(intervals[self.overall_name])}"
        lines.append(f"{self.overall_name:<13} {total:>5} {'':<31} {overall}")
        return "\n".join(line.rstrip() for line in lines)


def score_files(
    results: Path,
    gold: Path,
    tasks: Sequence[TaskSpec] | str | None = None,
    *,
    plain: bool = False,
    edition: Edition | None = None,
    encoding: Encoding = "utf-8",
) -> Scores:
    """Check and score a results file. `tasks` is a list, a comma-separated text, or None for all tasks.

    The default edition is detected from the gold's tasks. Raises ProblemsError (with all problems) or InputError.
    """
    gold_source = read_structured(gold, edition, encoding)
    predicted = read_structured(results, gold_source.edition, encoding)
    if tasks is None or isinstance(tasks, str):
        tasks = select_tasks(tasks, gold_source.edition)
    warnings = check_pair(predicted, gold_source, tasks)
    scores = score(gold_source.value, predicted.value, tasks, plain=plain, warnings=warnings)
    return replace(scores, edition=gold_source.edition)


def score(
    gold: Mapping[str, Items],
    predicted: Mapping[str, Items],
    tasks: Sequence[TaskSpec] = TASKS,
    *,
    plain: bool = False,
    warnings: tuple[Problem, ...] = (),
) -> Scores:
    """Score the answers of some tasks. Raises InputError if the published scorer could not score them."""
    scored = tuple(_score_task(task, gold[task.name], predicted[task.name], plain=plain) for task in tasks)
    if all(task.figures is None for task in scored):
        raise InputError("nothing to score: none of the tasks contains a sample")
    return Scores(scored, plain, warnings)


def _score_task(task: TaskSpec, gold: Items, predicted: Items, *, plain: bool) -> TaskScore:
    metric = (plain and task.plain_metric) or task.metric
    if not gold and not predicted:
        return TaskScore(task, metric, None)
    try:
        measured = measure(task, gold, predicted, plain=plain)
        return TaskScore(task, metric, measured.figures, measured)
    except InputError as error:
        raise InputError(f"{task.name}: {error}") from None


def _percent(figure: float | None) -> float | None:
    return None if figure is None else 100 * figure


def _range(interval: Interval | None) -> str:
    return "" if interval is None else f"{100 * interval.low:.2f}–{100 * interval.high:.2f}"


def measure(task: TaskSpec, gold: Items, predicted: Items, *, plain: bool = False) -> Measured[Any]:
    """The contributions of the samples in two lists, with the function that combines them. Raises InputError, also if
    no text has a sample or a section.
    """
    parts = [sample_part(task, want, have, plain=plain) for want, have in pairs(gold, predicted)]
    if task.kind in (AnswerKind.TEXT, AnswerKind.REPORT) and not any(parts):
        raise InputError(f"no {'sample' if task.kind is AnswerKind.TEXT else 'section in the gold'} to score")
    return measured(task, parts, plain=plain)


def sample_part(task: TaskSpec, gold: Any, predicted: Any, *, plain: bool = False) -> list[Any]:
    """The contribution of one sample as JSON, from its gold and its predicted answer. Raises InputError."""
    match task.kind:
        case AnswerKind.EXTRACTION:
            return list(extracted_part(gold, predicted, lists_as_sets=plain))
        case AnswerKind.CLASSES:
            return list(class_part(gold, predicted, task.empty_label))
        case AnswerKind.TEXT:
            return list(astuple(text_part(gold, predicted)))
        case AnswerKind.REPORT:
            return [list(astuple(section)) for section in report_part(gold, predicted)]
        case AnswerKind.TREE:
            return list(astuple(compare_trees(gold, predicted)))


def measured(task: TaskSpec, parts: Sequence[Any], *, plain: bool = False) -> Measured[Any]:
    """The contributions of a task's samples, with the function that combines them."""
    match task.kind:
        case AnswerKind.EXTRACTION:
            return Measured([tuple(part) for part in parts], micro)
        case AnswerKind.CLASSES:
            average = Average.MICRO if plain and task.average is Average.WEIGHTED else task.average
            return averaged([(want, have) for want, have in parts], average)
        case AnswerKind.TEXT:
            return Measured([Rouge(*part) for part in parts], mean)
        case AnswerKind.REPORT:
            return Measured([tuple(Rouge(*section) for section in part) for part in parts], mean_of_sections)
        case AnswerKind.TREE:
            return Measured([_tree_part(*part) for part in parts], combined_trees)


def _tree_part(edits: int, most_edits: int, nodes: Sequence[int], paths: Sequence[int]) -> TreePart:
    first, second, third = nodes
    right, predicted, gold = paths
    return TreePart(edits, most_edits, (first, second, third), (right, predicted, gold))


def sample_score(task: TaskSpec, part: Any) -> float | None:
    """The main figure of a single sample. An empty prediction for an empty gold is right. None: there is no figure."""
    if task.kind is AnswerKind.EXTRACTION and not any(part):
        return 1.0
    score = main_figure(measured(task, [part]).figures)
    return None if math.isnan(score) else score


def task_score(task: TaskSpec, parts: Sequence[Any]) -> TaskScore:
    """The figures of a task from the contributions of its samples."""
    if not parts:
        return TaskScore(task, task.metric, None)
    whole = measured(task, parts)
    return TaskScore(task, task.metric, whole.figures, whole)
