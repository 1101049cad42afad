"""Read questions with gold answers from four published formats. Errors name the line of every invalid row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from refsol.errors import InputError
from refsol.files import Encoding, InputFile, anything, csv_rows, id_of, json_object
from refsol.python_text import python_value

Variant = Literal["husimpleqa", "simpleqa", "simpleqa-verified", "chinese-simpleqa"]
VARIANTS: tuple[Variant, ...] = get_args(Variant)


@dataclass(frozen=True, slots=True)
class GoldQuestion:
    """A question with its gold answer. `id` is the data set's id, or the line number if there is none.

    `group` is the group in the tables; it is empty for a row without one.
    """

    id: str
    line: int
    question: str
    answer: str
    group: str


@dataclass(frozen=True, slots=True)
class _Format:
    rows: Callable[[InputFile], Iterator[tuple[int, dict[str, Any]]]]
    is_csv: bool
    question: str
    answer: str
    id: str
    group_field: str
    group: Callable[[Any], Any] = anything


def read_items(path: Path, variant: Variant = "husimpleqa", *, encoding: Encoding = "utf-8") -> list[GoldQuestion]:
    """The questions of a data file in file order. Blank lines and a byte order mark are allowed.

    Raises InputError that lists every row without a text as question or answer. Also raises it if the file cannot be
    read, is not in the variant's format, or contains no questions.
    """
    form = _FORMATS[variant]
    if (path.suffix.lower() == ".csv") != form.is_csv and path.suffix.lower() in (".csv", ".json", ".jsonl"):
        kind, fitting = ("CSV", True) if not form.is_csv else ("JSON lines", False)
        others = " or ".join(
            f"--variant {name}" for name, known_format in _FORMATS.items() if known_format.is_csv is fitting
        )
        raise InputError(f"{path}: its name says that it is {kind}, but --variant is {variant}; pass {others}")
    items: list[GoldQuestion] = []
    with InputFile(path, encoding=encoding, expected="fix or remove these rows") as file:
        for line, row in form.rows(file):
            faults = {name: fault for name in (form.question, form.answer) if (fault := _fault(row, name))}
            for name, fault in faults.items():
                file.fault(fault, line=line, place=name)
            if not faults:
                group = form.group(row.get(form.group_field))
                items.append(
                    GoldQuestion(
                        id=id_of(row.get(form.id), line),
                        line=line,
                        question=row[form.question],
                        answer=row[form.answer],
                        group=group.strip() if isinstance(group, str) else "",
                    )
                )
    if not items:
        raise InputError(f"{path}: contains no questions")
    return items


def without_groups(items: Sequence[GoldQuestion], variant: Variant) -> list[str]:
    """A warning if all questions are without a group, which suggests that the file is of another variant."""
    if any(item.group for item in items):
        return []
    return [
        f"no row contains the field {_FORMATS[variant].group_field} with the group of {variant}; if the file is of "
        "another variant, name it with --variant"
    ]


def duplicate_ids(items: Sequence[GoldQuestion]) -> dict[str, list[int]]:
    """The ids that several rows share, with their line numbers."""
    counts = Counter(item.id for item in items)
    return {id_: [item.line for item in items if item.id == id_] for id_, count in counts.items() if count > 1}


def json_rows(file: InputFile) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a JSON lines file with their line numbers. A line that is not an object is a fault of the file."""
    return file.json_lines(json_object)


def _problem_rows(file: InputFile) -> Iterator[tuple[int, dict[str, Any]]]:
    return csv_rows(file, ("problem", "answer"))


def _fault(row: dict[str, Any], name: str) -> str | None:
    value = row.get(name)
    if value is None:
        return "is missing"
    if not isinstance(value, str):
        return "is not a text"
    return None if value.strip() else "is empty"


def _topic_of(text: Any) -> Any:
    """SimpleQA's `metadata` is a Python dictionary as text; the group is its `topic`."""
    try:
        metadata = python_value(text or "")
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    return metadata.get("topic") if isinstance(metadata, dict) else None


_FORMATS: dict[Variant, _Format] = {
    "husimpleqa": _Format(json_rows, False, "question", "answer", "qid", "hu_specific_dim"),
    "simpleqa": _Format(_problem_rows, True, "problem", "answer", "id", "metadata", _topic_of),
    "simpleqa-verified": _Format(_problem_rows, True, "problem", "answer", "original_index", "topic"),
    "chinese-simpleqa": _Format(json_rows, False, "question", "answer", "id", "primary_category"),
}
