"""The figures of many rows: accuracy, precision, recall and F1 as published, also by groups; and baselines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from refsol.fhiragentbench._questions import Question


@dataclass(frozen=True, slots=True)
class RowPart:
    """One row's contribution to the figures. `dataclasses.asdict` gives its JSON form.

    `correct` is None if it could not be decided. `recall` and `precision` are None if they do not count. `grounded` is
    None if `correct` is None or there are no true ids.
    """

    correct: int | None
    recall: float | None
    precision: float | None
    grounded: bool | None
    answerable: bool
    types: str
    family: str
    template: str


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of some rows. A mean is None if no row counts for it. The counts are the rows in each mean.

    `accuracy` is the mean over decided rows. `f1` is the harmonic mean of mean precision and mean recall.
    """

    rows: int
    decided: int
    right: int
    accuracy: float | None
    precision: float | None
    precision_rows: int
    recall: float | None
    recall_rows: int
    f1: float
    grounded: int


def figures(rows: Iterable[RowPart]) -> Figures:
    """The figures of all rows. A question with two rows counts twice; a question without a row does not count."""
    scores = list(rows)
    decided = [one.correct for one in scores if one.correct is not None]
    precisions = [one.precision for one in scores if one.precision is not None]
    recalls = [one.recall for one in scores if one.recall is not None]
    precision, recall = _mean(precisions), _mean(recalls)
    return Figures(
        rows=len(scores),
        decided=len(decided),
        right=sum(decided),
        accuracy=_mean(decided),
        precision=precision,
        precision_rows=len(precisions),
        recall=recall,
        recall_rows=len(recalls),
        f1=f1(precision, recall),
        grounded=sum(one.grounded is True for one in scores),
    )


def grouped(rows: Iterable[RowPart], key: Callable[[RowPart], str]) -> dict[str, Figures]:
    """The figures by a property of the question (`family`, `types`, `template`), sorted by its value."""
    groups: dict[str, list[RowPart]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return {name: figures(groups[name]) for name in sorted(groups)}


def by_types(rows: Iterable[RowPart]) -> dict[str, dict[str, float | None]]:
    """The published table by types. Means are rounded to four places; F1 is computed from them and not rounded."""
    table: dict[str, dict[str, float | None]] = {}
    for name, group in grouped(rows, lambda row: row.types).items():
        precision, recall = rounded(group.precision), rounded(group.recall)
        table[name] = {
            "questions": group.rows,
            "accuracy": rounded(group.accuracy),
            "precision": precision,
            "recall": recall,
            "f1": f1(precision, recall),
        }
    return table


def f1(precision: float | None, recall: float | None) -> float:
    """The harmonic mean. 0 if one value is None or both are 0."""
    if precision is None or recall is None or precision + recall == 0:
        return 0.0
    return 2 * precision * recall / (precision + recall)


def rounded(value: float | None) -> float | None:
    """Round to four places as numpy does, by scaling."""
    return None if value is None else round(value * 10_000) / 10_000


def baselines(questions: Sequence[Question]) -> Mapping[str, float]:
    """The accuracy of agents that fetch nothing, assuming a perfect judge. Empty if there are no questions.

    `nop` says that nothing was found. `yes` says yes if the template asks whether something has happened, otherwise
    that nothing was found.
    """
    if not questions:
        return {}
    nothing = [not question.true_ids for question in questions]
    yes = [
        bool(question.true_ids) and question.true_answer.strip() == "[[1]]" if _asks_whether(question) else right
        for question, right in zip(questions, nothing, strict=True)
    ]
    return {"nop": fmean(nothing), "yes": fmean(yes)}


def _asks_whether(question: Question) -> bool:
    return question.template.startswith("Has_verb")


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None
