"""Reads the question file: questions with true answers, true ids, template and family.

The file is CSV in UTF-8 with nine columns, or as published with three more (`split`, `sql_query`, `val_dict`). True ids
are read as Python literals, so that no code in the file is run.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from refsol.files import Fault, FaultsError, InputFile
from refsol.python_text import python_value

COLUMNS = (
    "question_id",
    "question",
    "assumption",
    "patient_fhir_id",
    "true_answer",
    "true_fhir_ids",
    "template",
)
"""The columns that are read."""
TWIN_COLUMNS = ("twin", "removed_fhir_ids")
"""The columns of a set of twins, which are read too."""
OTHER_COLUMNS = ("task_type", "expected_actions", "split", "sql_query", "val_dict")
"""Optional columns, which are not read."""
MAX_FIELD = 1 << 24
"""The most characters of a cell. Python's default is too small for long lists of ids."""

Family = Literal[
    "prescriptions",
    "laboratory",
    "vital-signs",
    "microbiology",
    "stays",
    "outputs",
    "weight-and-height",
    "procedures",
    "icu-stays",
    "careunits",
    "demographics",
    "diagnoses",
]
FAMILIES: tuple[Family, ...] = get_args(Family)

_SIGNS: tuple[tuple[Family, tuple[str, ...]], ...] = (
    ("prescriptions", ("prescri", "{drug_")),
    ("microbiology", ("microbiology", "{spec_name}", "specimen")),
    ("laboratory", ("{lab_name}", "lab test")),
    ("vital-signs", ("{vital_name}",)),
    ("outputs", ("output",)),
    ("weight-and-height", ("weight", "height")),
    ("procedures", ("procedure",)),
    ("careunits", ("careunit",)),
    ("icu-stays", ("icu",)),
    ("diagnoses", ("diagnos",)),
    ("demographics", ("gender", "marital")),
    ("stays", ("hospital", "emergency")),
)
"""By family, texts that its templates contain. The first family that matches is used."""

Ids = Mapping[str, Sequence[str]]
"""Ids by resource type."""


@dataclass(frozen=True, slots=True)
class Question:
    """One question. `true_ids` is empty if the record has no answer, `split` if the file has no such column.

    Two twins are the same question over two charts. They share the name `twin`. `removed` are the ids of the resources
    that the chart of one of them lacks; that twin has no answer.
    """

    id: str
    question: str
    true_answer: str
    true_ids: Ids
    template: str = ""
    patient: str = ""
    assumption: str = ""
    split: str = ""
    twin: str = ""
    removed: Ids = field(default_factory=dict)

    @property
    def types(self) -> str:
        """The types of the true ids in the form of the published evaluator: `{Medication, MedicationRequest}`."""
        return type_names(self.true_ids)

    @property
    def judged_answer(self) -> str:
        """The true answer that the judge is shown: `no answer` if there are no true ids, whatever is stored."""
        return self.true_answer if self.true_ids else NO_ANSWER

    @property
    def change(self) -> tuple[str, ...]:
        """References of the resources that its chart lacks."""
        return tuple(f"{kind}/{resource_id}" for kind, ids in self.removed.items() for resource_id in ids)

    @property
    def family(self) -> Family:
        """The family of the template. Raises ValueError if no family matches."""
        return family_of(self.template)


NO_ANSWER = "no answer"


def type_names(ids: Ids) -> str:
    """The type names, sorted and in braces."""
    return "{" + ", ".join(sorted(ids)) + "}"


def family_of(template: str) -> Family:
    """The family of a template. Raises ValueError if no family matches."""
    text = template.lower()
    for family, signs in _SIGNS:
        if any(sign in text for sign in signs):
            return family
    raise ValueError(f"unknown template {template!r}: it matches no family of questions")


def read_questions(path: Path | str) -> tuple[Question, ...]:
    """Read the questions of a file. Raises InputError, which lists all problems with their lines and columns."""
    with InputFile(Path(path), expected="a question file of FHIR-AgentBench is expected") as file:
        questions: dict[str, Question] = {}
        for line, row in _rows(file):
            try:
                question = _question(row)
            except FaultsError as error:
                for fault in error.faults:
                    file.fault(fault.text, line=line, place=fault.place)
                continue
            if question.id in questions:
                file.fault(f"duplicate question_id {question.id}", line=line)
            questions[question.id] = question
        if not questions:
            file.fault("contains no questions")
        twins = Counter(question.twin for question in questions.values() if question.twin)
        size, words = (3, "three") if 3 in twins.values() else (2, "two")
        for twin, count in twins.items():
            if count != size:
                file.fault(
                    f"twin {twin} occurs in {count} of the questions; {words} questions share the name of a twin"
                )
    return tuple(questions.values())


def questions_text(questions: Sequence[Question]) -> str:
    """The text of a question file, in the form that `read_questions` reads."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    twins = any(question.twin for question in questions)
    table.writerow([*COLUMNS, *(TWIN_COLUMNS if twins else ())])
    for question in questions:
        ids = repr(dict(question.true_ids))
        row = [
            question.id,
            question.question,
            question.assumption,
            question.patient,
            question.true_answer,
            ids,
            question.template,
        ]
        table.writerow([*row, *([question.twin, repr(dict(question.removed))] if twins else ())])
    return text.getvalue()


def always_empty(questions: Sequence[Question]) -> dict[str, int]:
    """The templates of which no question has true ids, with their number of questions. Their true answers are wrong."""
    groups: dict[str, list[Question]] = {}
    for question in questions:
        groups.setdefault(question.template, []).append(question)
    return {name: len(group) for name, group in groups.items() if not any(question.true_ids for question in group)}


def _rows(file: InputFile) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows, each with the number of its first line."""
    before = csv.field_size_limit(MAX_FIELD)
    try:
        reader = csv.reader(io.StringIO(file.text(), newline=""), strict=True)
        header = next(reader, [])
        _check_header(file, header)
        line = reader.line_num + 1
        for cells in reader:
            if len(cells) == len(header):
                yield line, dict(zip(header, cells, strict=True))
            elif cells:
                file.fault(f"contains {len(cells)} cells, not {len(header)}", line=line)
            line = reader.line_num + 1
    except csv.Error as error:
        file.stop(f"is not valid CSV: {error}", line=reader.line_num)
    finally:
        csv.field_size_limit(before)


def _check_header(file: InputFile, header: Sequence[str]) -> None:
    missing = [name for name in COLUMNS if name not in header]
    unknown = [name for name in header if name not in (*COLUMNS, *TWIN_COLUMNS, *OTHER_COLUMNS)]
    if missing:
        file.fault(f"columns are missing: {', '.join(missing)}", line=1)
    if unknown:
        file.fault(f"has unknown columns: {', '.join(unknown)}", line=1)
    if len(set(header)) < len(header):
        file.fault("contains two columns with the same name", line=1)
    if missing or unknown or len(set(header)) < len(header):
        file.stop("its rows were not checked, because the header is wrong", line=1)


def _question(row: Mapping[str, str]) -> Question:
    faults = [Fault("is empty", (name,)) for name in ("question_id", "question", "template") if not row[name].strip()]
    ids: dict[str, Any] = {}
    for name in ("true_fhir_ids", "removed_fhir_ids"):
        try:
            ids[name] = _ids(row.get(name, ""))
        except ValueError as error:
            faults.append(Fault(str(error), (name,)))
    if row["template"].strip():
        try:
            family_of(row["template"])
        except ValueError as error:
            faults.append(Fault(str(error), ("template",)))
    if faults:
        raise FaultsError(faults)
    return Question(
        row["question_id"],
        row["question"],
        row["true_answer"],
        ids["true_fhir_ids"],
        row["template"],
        row["patient_fhir_id"],
        row["assumption"],
        row.get("split", ""),
        row.get("twin", ""),
        ids["removed_fhir_ids"],
    )


def _ids(cell: str) -> Ids:
    """The ids in a cell. Raises ValueError."""
    try:
        ids: Ids = python_value(cell) if cell.strip() else {}
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise ValueError("is not a Python literal") from None
    if not _is_ids(ids):
        raise ValueError("is not an object with lists of ids by resource type")
    return ids


def _is_ids(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(kind, str) and isinstance(ids, list) and all(isinstance(resource_id, str) for resource_id in ids)
        for kind, ids in value.items()
    )
