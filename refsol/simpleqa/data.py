"""The data sets: questions with gold answers, read from four published formats, every bad row named with its line."""

from __future__ import annotations

import ast
import csv
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from refsol.errors import InputError

Variant = Literal["husimpleqa", "simpleqa", "simpleqa-verified", "chinese-simpleqa"]
VARIANTS: tuple[Variant, ...] = get_args(Variant)

_NEWLINE = re.compile(r"\r\n?|\n")


@dataclass(frozen=True, slots=True)
class Item:
    """A question with its gold answer. `id` is the data set's own, or the line number where it has none.

    `group` is what the figures are broken down by, empty where the row states none.
    """

    id: str
    line: int
    question: str
    answer: str
    group: str


@dataclass(frozen=True, slots=True)
class _Format:
    rows: Callable[[str, Path], Iterator[tuple[int, Any]]]
    question: str
    answer: str
    id: str
    group: Callable[[dict[str, Any]], Any]


def read_items(path: Path, variant: Variant = "husimpleqa") -> list[Item]:
    """The items of a data file in its order. Blank lines and a byte order mark are accepted.

    Raises InputError, naming every row without a text as question or answer; also where the file cannot be read, is not
    of the variant's format, or holds no item.
    """
    form = _FORMATS[variant]
    items: list[Item] = []
    problems: list[str] = []
    for line, row in form.rows(read_text(path), path):
        wrong = [f"`{name}` is {_fault(row, name)}" for name in (form.question, form.answer) if _fault(row, name)]
        if wrong:
            problems.append(f"line {line}: {' and '.join(wrong)}")
            continue
        group = form.group(row)
        items.append(
            Item(
                id=id_of(row.get(form.id), line),
                line=line,
                question=row[form.question],
                answer=row[form.answer],
                group=group.strip() if isinstance(group, str) and group.strip() else "",
            )
        )
    if problems:
        raise InputError(f"{path}: {'; '.join(problems)}. Mend or remove these rows")
    if not items:
        raise InputError(f"{path}: holds no question")
    return items


def duplicate_ids(items: Sequence[Item]) -> dict[str, list[int]]:
    """The ids that several rows share, with the lines of those rows."""
    counts = Counter(item.id for item in items)
    return {id_: [item.line for item in items if item.id == id_] for id_, count in counts.items() if count > 1}


def id_of(value: object, line: int) -> str:
    """A row's id as text: a text or a whole number of its own, else its line number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value.strip() if isinstance(value, str) and value.strip() else str(line)


def read_text(path: Path) -> str:
    """The text of a UTF-8 file without its byte order mark. Raises InputError where it cannot be read."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}: line {line}: not UTF-8; save the file as UTF-8") from None


def json_rows(text: str, path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of JSON lines with their line numbers. Raises InputError at a line that is no object."""
    for line, part in enumerate(text.split("\n"), start=1):
        if not part.strip():
            continue
        try:
            row = json.loads(part)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}: line {line}: not JSON ({error})") from None
        if not isinstance(row, dict):
            raise InputError(f"{path}: line {line}: not a JSON object")
        yield line, row


def csv_rows(text: str, path: Path, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The records of a CSV file with the line each begins on. Raises InputError where a column or the form is wrong."""
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        if missing := [name for name in columns if name not in (reader.fieldnames or ())]:
            raise InputError(f"{path}: line 1: no column `{'` and no column `'.join(missing)}`")
        for row in reader:
            yield reader.line_num - sum(len(_NEWLINE.findall(str(value))) for value in row.values()), row
    except csv.Error as error:
        raise InputError(f"{path}: line {reader.reader.line_num}: not CSV ({error})") from None


def _problem_rows(text: str, path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    return csv_rows(text, path, ("problem", "answer"))


def _fault(row: dict[str, Any], name: str) -> str | None:
    value = row.get(name)
    if value is None:
        return "missing"
    if not isinstance(value, str):
        return "no text"
    if not value.strip():
        return "empty"
    return "not Unicode (half of a surrogate pair)" if re.search("[\ud800-\udfff]", value) else None


def _topic_of_metadata(row: dict[str, Any]) -> Any:
    """SimpleQA's `metadata` is the text of a Python dictionary, with `topic` in it."""
    try:
        metadata = ast.literal_eval(row.get("metadata") or "")
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    return metadata.get("topic") if isinstance(metadata, dict) else None


def _field(name: str) -> Callable[[dict[str, Any]], Any]:
    return lambda row: row.get(name)


_FORMATS: dict[Variant, _Format] = {
    "husimpleqa": _Format(json_rows, "question", "answer", "qid", _field("hu_specific_dim")),
    "simpleqa": _Format(_problem_rows, "problem", "answer", "id", _topic_of_metadata),
    "simpleqa-verified": _Format(_problem_rows, "problem", "answer", "original_index", _field("topic")),
    "chinese-simpleqa": _Format(json_rows, "question", "answer", "id", _field("primary_category")),
}
