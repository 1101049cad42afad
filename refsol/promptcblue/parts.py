"""The contribution of one sample to its task's figures, as JSON, and the figures of many contributions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple
from typing import Any

from refsol.promptcblue._metrics import (
    Measured,
    averaged,
    class_part,
    combined_trees,
    extracted_part,
    main_figure,
    mean_of_sections,
    micro,
    report_part,
    text_part,
)
from refsol.promptcblue._rouge import Rouge, mean
from refsol.promptcblue.score import TaskScore
from refsol.promptcblue.tasks import AnswerKind, TaskSpec
from refsol.promptcblue.tree import TreePart, compare_trees


def sample_part(task: TaskSpec, gold: Any, predicted: Any) -> list[Any]:
    """The contribution of one sample, from its gold and its predicted answer. Raises InputError."""
    match task.kind:
        case AnswerKind.EXTRACTION:
            return list(extracted_part(gold, predicted))
        case AnswerKind.CLASSES:
            return list(class_part(gold, predicted, task.empty_label))
        case AnswerKind.TEXT:
            return list(astuple(text_part(gold, predicted)))
        case AnswerKind.REPORT:
            return [list(astuple(section)) for section in report_part(gold, predicted)]
        case AnswerKind.TREE:
            return list(astuple(compare_trees(gold, predicted)))


def measured(task: TaskSpec, parts: Sequence[Any]) -> Measured[Any]:
    """The contributions of a task's samples, with the function that combines them."""
    match task.kind:
        case AnswerKind.EXTRACTION:
            return Measured([tuple(part) for part in parts], micro)
        case AnswerKind.CLASSES:
            return averaged([(want, have) for want, have in parts], task.average)
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
