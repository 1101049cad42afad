"""Runs a whole evaluation with a judge, and compares recorded evaluations with a scripted judge.

The published evaluators trust the true answers in an output file, so recorded evaluations and `trusting_rows` do too.
The benchmark never does: its true answers come from the question file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal

from refsol.fhiragentbench._questions import Question
from refsol.fhiragentbench.answers import normalized, read_judge, settle
from refsol.fhiragentbench.figures import RowScore, by_types, figures, grade_row
from refsol.fhiragentbench.outputs import Output
from refsol.fhiragentbench.retrieval import ResourcesError, RuleName

TOLERANCE = 1e-9

CallKind = Literal["normalize", "judge"]
Row = tuple[int, Question, Output]
"""A row that counts: its position in the output file, its question, and the agent's output."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the judge's model, with the values for its prompt. `temperature` is None if none is sent."""

    kind: CallKind
    row: int
    question: str
    answer: Any
    true_answer: str | None = None
    temperature: float | None = None


Judge = Callable[[Call], str | None]
"""Returns the reply to a call, or None if the call fails or its reply contains no text."""


class EvaluationError(ValueError):
    """The published evaluator fails on an output file. `row` is the position in the file, `field` the column."""

    def __init__(self, row: int, field: str, problem: str) -> None:
        super().__init__(f"[{row}].{field}: {problem}")
        self.row = row
        self.field = field


def evaluate(rows: Sequence[Row], judge: Judge, model: str, rules: RuleName = "published") -> list[RowScore]:
    """Grade the rows, with the judge's calls in the published order. Raises EvaluationError."""
    for row in rows:  # before any call, as published, so that a file that cannot be graded costs nothing
        _check_resources(row, rules)
    temperature = None if model == "o4-mini" and rules != "a2a" else 0.0

    def ask(kind: CallKind, row: Row, true_answer: str | None = None) -> str | None:
        place, question, output = row
        return judge(Call(kind, place, question.question, output.answer, true_answer, temperature))

    normals = [None if rules == "a2a" else normalized(ask("normalize", row)) for row in rows]
    graded = []
    for row, normal in zip(rows, normals, strict=True):
        _, question, output = row
        true_answer = question.true_answer if rules == "a2a" else question.judged_answer
        correct = settle(output.answer, output.error, true_answer, normal or "", rules)
        while correct is None:
            correct = read_judge(ask("judge", row, true_answer), rules)
        graded.append(grade_row(question, output, correct, rules=rules, normalized=normal))
    return graded


def trusting_rows(
    truth: Sequence[Mapping[str, Any]], answers: Sequence[Mapping[str, Any]], rules: RuleName = "published"
) -> list[Row]:
    """The rows that count. Columns of the output file replace the question file's. Raises EvaluationError."""
    questions = {row["question_id"]: row for row in truth}
    columns = {name for row in answers for name in row}
    rows = []
    for place, answer in enumerate(answers):
        row = questions.get(answer.get("question_id"))
        if row is not None:
            rows.append((place, _question({**row, **{name: answer.get(name) for name in columns}}), _output(answer)))
    if not rows:
        raise EvaluationError(0, "question_id", "no row of the file contains a known question_id")
    if rules != "a2a" and "error" not in columns:
        raise EvaluationError(rows[0][0], "error", "no row of the file contains this column")
    return rows


def difference(line: Mapping[str, Any]) -> str | None:
    """The first difference between a recorded evaluation and this package's, or None."""
    rules: RuleName = "a2a" if line["evaluator"] == "a2a" else "published"
    script = _Script(line["script"])
    expected = line["expected"]
    try:
        rows = trusting_rows(line["truth"], line["answers"], rules)
        scores = evaluate(rows, script, line["model"], rules)
    except EvaluationError as error:
        return None if "stops" in expected else f"{line['id']}: stops at {error}, but scores are recorded"
    if "stops" in expected:
        return f"{line['id']}: contains scores, but the recorded evaluation stopped"
    ours = {
        "calls": [_call_json(call) for call in script.calls],
        "rows": [_row_json(score, rules) for score in scores],
        "overall": _overall(scores),
    }
    if rules != "a2a":
        ours["by_types"] = by_types(score.part for score in scores)
    for name, value in expected.items():
        if place := _differs(ours.get(name), value):
            return f"{line['id']} ({line['group']}): {name}{place}"
    return None


def _check_resources(row: Row, rules: RuleName) -> None:
    """Raises EvaluationError if the found ids of a row cannot be compared."""
    place, question, output = row
    try:
        grade_row(question, output, None, rules=rules)
    except ResourcesError as error:
        raise EvaluationError(place, "agent_fhir_resources", str(error)) from None


class _Script:
    """A judge with scripted replies for each row and kind of call. Without further replies its calls fail."""

    def __init__(self, script: Sequence[Mapping[str, Sequence[Any]]]) -> None:
        self._script = script
        self._next: dict[tuple[int, CallKind], count[int]] = {}
        self.calls: list[Call] = []

    def __call__(self, call: Call) -> str | None:
        self.calls.append(call)
        replies = self._script[call.row].get(call.kind, ())
        place = next(self._next.setdefault((call.row, call.kind), count()))
        reply = replies[place] if place < len(replies) else None
        return reply if isinstance(reply, str) else None


def _question(row: Mapping[str, Any]) -> Question:
    ids = row["true_fhir_ids"]
    return Question(row["question_id"], row["question"], row["true_answer"], ids if isinstance(ids, dict) else {})


def _output(row: Mapping[str, Any]) -> Output:
    return Output(row["question_id"], row.get("agent_answer"), row.get("agent_fhir_resources"), row.get("error"))


def _call_json(call: Call) -> dict[str, Any]:
    values = {"kind": call.kind, "row": call.row, "question": call.question, "answer": str(call.answer)}
    optional = {"true_answer": call.true_answer, "temperature": call.temperature}
    return {**values, **{name: value for name, value in optional.items() if value is not None}}


def _row_json(score: RowScore, rules: RuleName) -> dict[str, Any]:
    values = {
        "question_id": score.question.id,
        "recall": score.retrieval.recall,
        "precision": score.retrieval.precision,
        "correct": score.correct,
    }
    if rules == "a2a":
        return values
    return {
        **values,
        "found": list(score.retrieval.matches),
        "types": score.question.types,
        "true_answer": score.question.judged_answer,
        "normalized": score.normalized,
    }


def _overall(scores: Sequence[RowScore]) -> dict[str, Any]:
    total = figures(score.part for score in scores)
    return {
        "questions": total.rows,
        "accuracy": total.accuracy,
        "precision": total.precision,
        "recall": total.recall,
        "f1": total.f1,
    }


def _differs(ours: Any, expected: Any) -> str | None:
    """The first place at which two values differ, with both values. None if they are equal (numbers: within 1e-9)."""
    if isinstance(ours, dict) and isinstance(expected, dict) and ours.keys() == expected.keys():
        places = ((f".{name}", ours[name], expected[name]) for name in expected)
    elif isinstance(ours, list) and isinstance(expected, list) and len(ours) == len(expected):
        places = ((f"[{number}]", our, their) for number, (our, their) in enumerate(zip(ours, expected, strict=True)))
    elif isinstance(ours, int | float) and isinstance(expected, int | float):
        return None if abs(ours - expected) < TOLERANCE else f": {ours!r}, recorded {expected!r}"
    else:
        return None if ours == expected else f": {ours!r}, recorded {expected!r}"
    return next((f"{place}{inner}" for place, our, their in places if (inner := _differs(our, their))), None)
