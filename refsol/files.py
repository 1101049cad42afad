"""Read JSON, JSON lines, CSV and text files. All readers share one format of messages and list all problems.

A message is `file:line: place: problem`. The place is the path in the value (`results[3].answer`). At most 20 problems
are listed, then the number of the others. A `Validator` checks the format of a value: it is a function that returns the
value as the program uses it, or raises `FaultsError`. Standard library only; `refsol.schema` makes validators from
pydantic models.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, NoReturn, TypeVar, cast, get_args

from refsol.errors import InputError, Lines
from refsol.json_values import json_value, unicode_json

Encoding = Literal["utf-8", "gbk", "gb18030"]
ENCODINGS: tuple[Encoding, ...] = get_args(Encoding)
MAX_LISTED = 20
LONGEST_LINE = 64_000_000
"""Bytes of one line, and of a compressed document. Above it, a small compressed file could take any memory."""
MOST_BLANK = 1_000_000
"""Empty lines in a row."""

T = TypeVar("T")
Validator = Callable[[Any], T]
Steps = tuple[str | int, ...]

_UNREADABLE = (OSError, EOFError, zlib.error)
"""The errors of reading a file; all except OSError come from compressed files."""
_BOM = b"\xef\xbb\xbf"
_PLAIN_KEY = re.compile(r"[^\W\d][\w-]*")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_NEWLINE = re.compile(r"\r\n?|\n")


@dataclass(frozen=True, slots=True)
class Fault:
    """One problem in a value, and the path to it."""

    text: str
    steps: Steps = ()

    @property
    def place(self) -> str:
        """The path as text: `results[3].answer`; empty for the value itself."""
        parts = (
            f".{step}" if isinstance(step, str) and _PLAIN_KEY.fullmatch(step) else f"[{json.dumps(step)}]"
            for step in self.steps
        )
        return "".join(parts).removeprefix(".")


class FaultsError(ValueError):
    """A value is not in the format that a validator requires. `faults` lists all problems."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__("; ".join(f"{fault.place}: {fault.text}".removeprefix(": ") for fault in faults))
        self.faults = tuple(faults)


class TooLargeError(ValueError):
    """A line is over a limit. `line` is its number."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line


class DuplicateKeyError(ValueError):
    """An object of a JSON text contains a key twice, so it is unknown which value is meant."""


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The hook of `json.loads` for objects. Raises DuplicateKeyError."""
    value = dict(pairs)
    if len(value) < len(pairs):
        twice = next(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        raise DuplicateKeyError(f"an object contains the key {twice!a} twice; remove one of them")
    return value


def check_keys(text: str | bytes) -> None:
    """Raises DuplicateKeyError for a JSON text with an object that contains a key twice, which other readers accept."""
    json.loads(text, object_pairs_hook=unique)


def lines_within(file: BinaryIO, longest: int = LONGEST_LINE) -> Iterator[bytes]:
    """The lines of a file, which end at line feeds only. Raises TooLargeError as soon as a line has more than `longest`
    bytes, or if there are very many empty lines.
    """
    number = blank = 0
    while line := file.readline(longest + 1):
        number += 1
        if len(line) > longest:
            raise TooLargeError(number, f"the line has more than {longest:,} bytes")
        blank = blank + 1 if line.isspace() else 0
        if blank > MOST_BLANK:
            raise TooLargeError(number, f"there are more than {MOST_BLANK:,} empty lines before this one")
        yield line


def anything(value: Any) -> Any:
    """The validator that accepts any value."""
    return value


def json_object(value: Any) -> dict[str, Any]:
    """The validator that accepts any JSON object."""
    if not isinstance(value, dict):
        raise FaultsError([Fault("is not a JSON object")])
    return value


def read_text(path: Path, *, encoding: Encoding = "utf-8", error: type[Exception] = InputError) -> str:
    """The text of a file without its byte order mark. Raises `error` if it cannot be read."""
    return InputFile(path, encoding=encoding, error=error).text()


def read_json(
    path: Path,
    validate: Validator[T],
    *,
    encoding: Encoding = "utf-8",
    expected: str = "",
    max_bytes: int | None = None,
    error: type[Exception] = InputError,
) -> T:
    """The value in a JSON file, as returned by the validator.

    `expected` describes the file and ends the message. Raises `error` with all problems.
    """
    return InputFile(path, encoding=encoding, expected=expected, max_bytes=max_bytes, error=error).json(validate)


def read_jsonl(
    path: Path,
    validate: Validator[T],
    *,
    encoding: Encoding = "utf-8",
    expected: str = "",
    error: type[Exception] = InputError,
) -> list[tuple[int, T]]:
    """The values of a JSON lines file with their line numbers. Blank lines are skipped.

    `expected` describes a line and ends the message. Raises `error` with all problems.
    """
    with InputFile(path, encoding=encoding, expected=expected, error=error) as file:
        return list(file.json_lines(validate))


class InputFile:
    """An open input file, compressed if its name ends in `.gz`.

    Faults are collected. Leaving the `with` block raises them all as one `error`.
    """

    def __init__(
        self,
        path: Path,
        *,
        encoding: Encoding = "utf-8",
        expected: str = "",
        max_bytes: int | None = None,
        error: type[Exception] = InputError,
    ) -> None:
        self.path = path
        self._encoding = encoding
        self._expected = expected
        self._max_bytes = max_bytes
        self._error = error
        self._listed: list[str] = []
        self._unlisted = 0

    def __enter__(self) -> InputFile:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None and self._listed:
            self._raise()

    def fault(self, text: str, *, line: int | None = None, place: str = "") -> None:
        """Add a fault."""
        if len(self._listed) == MAX_LISTED:
            self._unlisted += 1
            return
        where = str(self.path) if line is None else f"{self.path}:{line}"
        self._listed.append(": ".join(filter(None, (where, place, text))).replace("\n", " "))

    def stop(self, text: str, *, line: int | None = None) -> NoReturn:
        """Add a fault after which the file cannot be read, and raise all faults."""
        self.fault(text, line=line)
        self._raise()

    def text(self) -> str:
        """The whole text without its byte order mark. Raises the error if it cannot be read."""
        data = self._bytes()
        try:
            return data.removeprefix(_BOM).decode(self._encoding)
        except UnicodeDecodeError:
            for number, line in enumerate(data.removeprefix(_BOM).split(b"\n"), 1):
                self._decoded(line, number)
            self._raise()

    def json(self, validate: Validator[T]) -> T:
        """The value of a whole JSON file, in valid Unicode. Raises the error if it is not valid."""
        text = unicode_json(self.text())
        try:
            value = json.loads(text, object_pairs_hook=unique)
        except DuplicateKeyError as error:
            self.stop(str(error))
        except (ValueError, RecursionError) as error:
            self.stop(_not_json(error), line=getattr(error, "lineno", 1))
        try:
            return validate(value)
        except FaultsError as error:
            for fault in error.faults:
                self.fault(fault.text, line=_line_of(text, fault.steps), place=fault.place)
        self._raise()

    def first_value(self) -> Any:
        """The JSON value on the first line that is not blank; None if that line alone is not JSON. It tells JSON lines
        from one document.
        """
        for _, line in self._lines():
            if line.strip():
                return json_value(line)
        return None

    def json_lines(self, validate: Validator[T], *, torn_tail: bool = False) -> Iterator[tuple[int, T]]:
        """The values of JSON lines with their line numbers, in valid Unicode. An invalid line becomes a fault and is
        left out.

        `torn_tail`: a last line without a newline that is not JSON was not written completely; it is not a fault.
        """
        first = True
        for number, line in self._lines():
            if (text := self._decoded(line, number)) is None or not text.strip():
                continue
            if first and (text.lstrip().startswith("[") or text.strip() == "{"):
                self.stop("is one JSON document, not JSON lines (one object per line)", line=number)
            first = False
            try:
                value = validate(json.loads(unicode_json(text), object_pairs_hook=unique))
            except DuplicateKeyError as error:
                self.fault(str(error), line=number)
            except FaultsError as error:
                for fault in error.faults:
                    self.fault(fault.text, line=number, place=fault.place)
            except (ValueError, RecursionError) as error:
                if not (torn_tail and not line.endswith(b"\n")):
                    self.fault(_not_json(error), line=number)
            else:
                yield number, value

    def _raise(self) -> NoReturn:
        lines = [*self._listed, f"{self.path}: and {self._unlisted} more"] if self._unlisted else self._listed
        raise self._error(Lines("\n".join(lines) + (f"; {self._expected}" if self._expected else ""))) from None

    def _refuse(self, text: str) -> NoReturn:
        """Raise only the fault that makes the whole file unreadable."""
        raise self._error(f"{self.path}: {text}") from None

    def _open(self) -> BinaryIO:
        try:
            file = self.path.open("rb")
            size = self.path.stat().st_size
        except OSError as error:
            self._refuse(f"cannot be read: {error.strerror}")
        if self._max_bytes is not None and size > self._max_bytes:
            file.close()
            self._refuse(f"contains {size} bytes, more than the limit of {self._max_bytes}")
        if file.peek(4)[:4] == b"PK\3\4":
            file.close()
            self._refuse(
                "is a ZIP archive; unpack it, and name a file in it; if it is a pack of a run, name the folder"
            )
        if self.path.suffix != ".gz":
            return file
        file.close()  # a GzipFile would not close it
        return cast(BinaryIO, gzip.open(self.path))

    def _bytes(self) -> bytes:
        with self._open() as file:
            try:
                packed = self.path.suffix == ".gz"
                data = file.read(LONGEST_LINE + 1 if packed else -1)
                if packed and len(data) > LONGEST_LINE:
                    self._refuse(f"contains more than {LONGEST_LINE:,} bytes when unpacked; unpack it first")
                return data
            except _UNREADABLE as error:
                self._refuse(f"cannot be read: {_why(error)}")

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        with self._open() as file:
            try:
                for number, line in enumerate(lines_within(file), 1):
                    yield number, line.removeprefix(_BOM) if number == 1 else line
            except TooLargeError as error:
                self.stop(str(error), line=error.line)
            except _UNREADABLE as error:
                self._refuse(f"cannot be read: {_why(error)}")

    def _decoded(self, line: bytes, number: int) -> str | None:
        """Decode a line. Returns None and adds a fault if the encoding is wrong. Raises if it is probably GBK."""
        try:
            return line.decode(self._encoding)
        except UnicodeDecodeError as error:
            if self._encoding == "utf-8" and (probable := _probable_encoding(self._bytes())):
                self._refuse(f"not UTF-8, probably {probable.upper()}; try --encoding {probable}")
            self.fault(f"is not {self._encoding.upper()} at byte {error.start + 1} of the line", line=number)
            return None


def _why(error: Exception) -> str:
    if isinstance(error, EOFError):
        return "the compressed file is cut off"
    return (isinstance(error, OSError) and error.strerror) or str(error)


def _not_json(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"is not JSON: {error.msg.removesuffix(' at')} at column {error.colno}"
    if isinstance(error, RecursionError):
        return "is nested too deeply to be read"
    return f"is not JSON: {str(error).partition(';')[0]}"


def _probable_encoding(data: bytes) -> Encoding | None:
    """GBK or GB18030 if bytes that are not UTF-8 are mostly common Chinese text in it, otherwise None.

    Text in ISO 8859-2 or cp1252 can contain the bytes of Chinese characters, but rarely of common ones: the first level
    of GB 2312 (3,755 characters) begins with the bytes B0 to D7.
    """
    as_utf8 = data.decode("utf-8", "replace")
    damaged = as_utf8.count("\ufffd")
    if sum(character > "\x7f" for character in as_utf8) > 2 * damaged:
        return None
    for encoding in ("gbk", "gb18030"):
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        others = [character for character in text if character > "\x7f"]
        return encoding if 3 * sum(map(_is_common, others)) > 2 * len(others) else None
    return None


def _is_common(character: str) -> bool:
    """Whether a character is a Chinese mark, or on the first level of GB 2312."""
    first, *second = character.encode("gb2312", "ignore") or b"\0"
    return bool(second) and (first in (0xA1, 0xA3) or 0xB0 <= first <= 0xD7)


def _line_of(text: str, steps: Steps) -> int:
    """The line in a JSON text where the value at a path starts, or its innermost existing parent."""
    decoder, place = json.JSONDecoder(), _skip(text, 0)
    for step in steps:
        inner = None
        for name, start in _members(text, place, decoder):
            if name == step:
                inner = start
        if inner is None:
            break
        place = inner
    return text.count("\n", 0, place) + 1


def _members(text: str, place: int, decoder: json.JSONDecoder) -> Iterator[tuple[str | int, int]]:
    """The name or index of each member of the object or list at a place of valid JSON, and the start of its value."""
    bracket, count, place = text[place], 0, _skip(text, place + 1)
    while bracket in "{[" and text[place] not in "}]":
        name: str | int = count
        if bracket == "{":
            name, place = decoder.raw_decode(text, place)
            place = _skip(text, _skip(text, place) + 1)
        _, end = decoder.raw_decode(text, place)
        yield name, place
        count, place = count + 1, _skip(text, end)
        if text[place] == ",":
            place = _skip(text, place + 1)


def _skip(text: str, place: int) -> int:
    while place < len(text) and text[place] in " \t\r\n":
        place += 1
    return place


def id_of(value: object, line: int) -> str:
    """A row's id as text: its own text or whole number, otherwise its line number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value.strip() if isinstance(value, str) and value.strip() else str(line)


def csv_rows(file: InputFile, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The records of a CSV file with their first lines. Raises the file's error if a column is missing or the format is
    wrong.
    """
    reader = csv.DictReader(io.StringIO(file.text(), newline=""), strict=True)
    try:
        if missing := [name for name in columns if name not in (reader.fieldnames or ())]:
            file.stop(f"no column `{'` and no column `'.join(missing)}`", line=1)
        for row in reader:
            yield reader.line_num - sum(len(_NEWLINE.findall(str(value))) for value in row.values()), row
    except csv.Error as error:
        file.stop(f"is not CSV: {error}", line=reader.reader.line_num)


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Rows as CSV. A text that a spreadsheet would take for a formula gets an apostrophe before it."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(
        [f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell for cell in row] for row in rows
    )
    return out.getvalue()
