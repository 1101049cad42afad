"""The score of a row, with the reason if it is not right; and the figures of many rows.

The figures are accuracy, precision, recall and F1 as published, also by groups, and the baselines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal, get_args

from refsol.failures import ENDS, EndKind
from refsol.failures import KIND_WORDS as ENDED_WORDS
from refsol.fhiragentbench._questions import Question
from refsol.fhiragentbench.answers import OUT_OF_TURNS, OVER_CAP, Correct, is_error, is_null
from refsol.fhiragentbench.compare import refuses
from refsol.fhiragentbench.outputs import Output
from refsol.fhiragentbench.retrieval import Retrieval, RuleName, retrieve


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
    decided = [score.correct for score in scores if score.correct is not None]
    precisions = [score.precision for score in scores if score.precision is not None]
    recalls = [score.recall for score in scores if score.recall is not None]
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
        grounded=sum(score.grounded is True for score in scores),
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


FailureKind = Literal[
    "over-cap",
    "out-of-turns",
    "cut-reply",
    "empty-reply",
    EndKind,
    "error",
    "said-nothing",
    "refused-despite-evidence",
    "answered-without-evidence",
    "nothing-found",
    "not-all-found",
    "wrong-answer",
]
FAILURE_KINDS: tuple[FailureKind, ...] = get_args(FailureKind)
KIND_WORDS: dict[str, str] = {
    "over-cap": "the input exceeded the cap",
    "out-of-turns": "all turns were used without a final answer",
    **{kind: ENDED_WORDS[kind] for kind in ENDS.values()},
    "error": "the episode ended with an error",
    "said-nothing": "gave no answer",
    "refused-despite-evidence": "said that the answer is not in the record, which contains it",
    "answered-without-evidence": "gave an answer that is not in the record",
    "nothing-found": "found no resource of the types that have the answer",
    "not-all-found": "found some of the true ids, not all",
    "wrong-answer": "found all true ids and answered wrong",
}
"""A text for each kind, in the order in which the kinds are checked. `error` is an end whose status is unknown."""


@dataclass(frozen=True, slots=True)
class RowScore:
    """The score of one row. `failure` is the reason if the row is not right.

    `correct` is None if it could not be decided. `normalized` is None if there was no normalizing call.
    """

    question: Question
    retrieval: Retrieval
    correct: Correct | None
    normalized: str | None = None
    failure: FailureKind | None = None

    @property
    def grounded(self) -> bool | None:
        """Whether the row is right and all true ids were found. None if `correct` is None or there are no true ids."""
        if self.correct is None or not any(self.question.true_ids.values()):
            return None
        return self.correct == 1 and all_found(self.question, self.retrieval)

    @property
    def part(self) -> RowPart:
        """The row's contribution to the figures."""
        question, retrieval = self.question, self.retrieval
        return RowPart(
            self.correct,
            retrieval.recall,
            retrieval.precision,
            self.grounded,
            bool(question.true_ids),
            question.types,
            question.family if question.template else "",
            question.template,
        )

    @property
    def reason(self) -> str:
        """The reason as text if the row is not right, otherwise empty."""
        return KIND_WORDS[self.failure] if self.failure else ""


def grade_row(
    question: Question,
    output: Output,
    correct: Correct | None,
    *,
    rules: RuleName = "published",
    normalized: str | None = None,
) -> RowScore:
    """Score a row: its retrieval by the rule set, and its answer by `correct` (from `settle`, a judge or `compare`).

    The true answer and ids are the question's, not those in the output file. Raises ResourcesError if the found ids
    cannot be compared.
    """
    if rules == "a2a" and is_error(output.error, rules):
        retrieval = Retrieval((), None, None)
    else:
        retrieval = retrieve(question.true_ids, output.resources, rules)
    failure = failure_of(question, output, retrieval, rules, normalized) if correct == 0 else None
    return RowScore(question, retrieval, correct, normalized, failure)


def failure_of(
    question: Question,
    output: Output,
    retrieval: Retrieval,
    rules: RuleName = "published",
    normalized: str | None = None,
) -> FailureKind:
    """The reason why a row is not right."""
    text = output.answer.strip() if isinstance(output.answer, str) else None
    if text and OVER_CAP in text:
        return "over-cap"
    if text and text.startswith(OUT_OF_TURNS):
        return "out-of-turns"
    if is_error(output.error, rules):
        return "error"
    if is_null(output.answer) or text == "":
        return "said-nothing"
    if question.twin and refuses(question, output, normalized):
        return "refused-despite-evidence"
    if question.twin and not question.true_ids:
        return "answered-without-evidence"
    if any(question.true_ids.values()) and not retrieval.matches:
        return "nothing-found"
    return "wrong-answer" if all_found(question, retrieval) else "not-all-found"


def all_found(question: Question, retrieval: Retrieval) -> bool:
    """Whether every true id was found."""
    matches = set(retrieval.matches)
    return all(resource_id in matches for ids in question.true_ids.values() for resource_id in ids)
