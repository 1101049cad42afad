"""Reads and writes the published output file: a JSON list with a row for each question that an agent was asked."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from refsol.errors import InputError
from refsol.fhiragentbench._questions import Question
from refsol.files import Fault, FaultsError, read_json

COLUMNS = (
    "question_id",
    "question",
    "true_answer",
    "assumption",
    "question_with_context",
    "patient_fhir_id",
    "agent_answer",
    "agent_fhir_resources",
    "trace",
    "error",
    "usage",
)
"""The columns of the file. The published evaluator needs all of them."""


@dataclass(frozen=True, slots=True)
class Output:
    """An agent's output for one question.

    `answer` is the whole last message, or None. `resources` are the found ids by type, as an object or as its text.
    `trace` and `usage` are not interpreted.
    """

    question_id: str
    answer: Any = None
    resources: Any = None
    error: Any = None
    trace: Any = None
    usage: Any = None
    more: Mapping[str, Any] = field(default_factory=dict)
    """The other columns. Grading does not read them: true answers and ids come from the question file."""


def read_outputs(path: Path | str) -> tuple[Output, ...]:
    """Read the rows of an output file. Raises InputError, which lists all problems by row and column."""
    return read_json(Path(path), _outputs, expected="an output file of FHIR-AgentBench is expected")


def write_outputs(path: Path, outputs: Iterable[Output], questions: Mapping[str, Question]) -> None:
    """Write an output file with all eleven columns. It is replaced only when it is complete. Raises InputError.

    `questions` maps ids to the rows' questions.
    """
    aside = path.with_name(f".{path.name}.part")
    try:
        with aside.open("w", encoding="utf-8", errors="replace", newline="\n") as file:
            before = "[\n"
            for output in outputs:
                file.write(before + json.dumps(row_of(output, questions[output.question_id]), ensure_ascii=False))
                before = ",\n"
            file.write("[]\n" if before == "[\n" else "\n]\n")
        os.replace(aside, path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None


def row_of(output: Output, question: Question) -> dict[str, Any]:
    """A row of the file, with the eleven columns in order."""
    values = {
        "question_id": question.id,
        "question": question.question,
        "true_answer": question.true_answer,
        "assumption": question.assumption or None,
        "question_with_context": with_context(question),
        "patient_fhir_id": question.patient,
        "agent_answer": output.answer,
        "agent_fhir_resources": output.resources,
        "trace": output.trace,
        "error": output.error,
        "usage": output.usage,
    }
    return {name: values[name] for name in COLUMNS}


def with_context(question: Question) -> str:
    """The question as the agent gets it: with the patient's id, and with the assumption if there is one."""
    lines = [f"Question: {question.question}", "Context:", f"Patient FHIR ID is {question.patient}."]
    return "\n".join([*lines, question.assumption] if question.assumption else lines)


def _outputs(value: Any) -> tuple[Output, ...]:
    if not isinstance(value, list):
        raise FaultsError([Fault("is not a list of rows")])
    faults = [fault for place, row in enumerate(value) for fault in _faults(row, place)]
    if not value:
        faults.append(Fault("contains no rows"))
    if faults:
        raise FaultsError(faults)
    return tuple(_output(row) for row in value)


def _faults(row: Any, place: int) -> Sequence[Fault]:
    if not isinstance(row, dict):
        return [Fault("is not an object", (place,))]
    faults = (
        [] if isinstance(row.get("question_id"), str) else [Fault("is missing or not text", (place, "question_id"))]
    )
    needed = ("agent_answer", "agent_fhir_resources", "error")
    return [*faults, *(Fault("is missing", (place, name)) for name in needed if name not in row)]


def _output(row: Mapping[str, Any]) -> Output:
    more = {name: value for name, value in row.items() if name not in _READ}
    return Output(
        row["question_id"],
        row["agent_answer"],
        row["agent_fhir_resources"],
        row["error"],
        row.get("trace"),
        row.get("usage"),
        more,
    )


_READ = {"question_id", "agent_answer", "agent_fhir_resources", "error", "trace", "usage"}
