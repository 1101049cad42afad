"""`grade_row`: the score of one row, and the reason if it is not right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from refsol.fhiragentbench._questions import Question
from refsol.fhiragentbench.answers import OUT_OF_TURNS, OVER_CAP, Correct, is_error, is_null
from refsol.fhiragentbench.figures import RowPart
from refsol.fhiragentbench.outputs import Output
from refsol.fhiragentbench.retrieval import Retrieval, RuleName, retrieve

FailureKind = Literal[
    "over-cap", "out-of-turns", "error", "said-nothing", "nothing-found", "not-all-found", "wrong-answer"
]
FAILURE_KINDS: tuple[FailureKind, ...] = get_args(FailureKind)
KIND_WORDS: dict[FailureKind, str] = {
    "over-cap": "the input exceeded the cap",
    "out-of-turns": "all turns were used without a final answer",
    "error": "the episode ended with an error",
    "said-nothing": "gave no answer",
    "nothing-found": "found no resource of the types that have the answer",
    "not-all-found": "found some of the true ids, not all",
    "wrong-answer": "found all true ids and answered wrong",
}
"""A text for each kind, in the order in which the kinds are checked."""


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
    failure = failure_of(question, output, retrieval, rules) if correct == 0 else None
    return RowScore(question, retrieval, correct, normalized, failure)


def failure_of(question: Question, output: Output, retrieval: Retrieval, rules: RuleName = "published") -> FailureKind:
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
    if any(question.true_ids.values()) and not retrieval.matches:
        return "nothing-found"
    return "wrong-answer" if all_found(question, retrieval) else "not-all-found"


def all_found(question: Question, retrieval: Retrieval) -> bool:
    """Whether every true id was found."""
    matches = set(retrieval.matches)
    return all(one in matches for ids in question.true_ids.values() for one in ids)
