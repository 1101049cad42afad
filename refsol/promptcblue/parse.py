"""A PromptCBLUE predictions file (JSON lines, the model's text in `target`) → structured answers by task.

The rules are the observed behaviour of the official parser of the 16-task edition (CCKS 2023), its quirks included:
what it loses is lost here too, or scores would not compare. One parser a task; `PARSERS` lists them in output order.

This file is also the `post_generate_process.py` of a submission, without any change. So it imports only the standard
library, runs on Python 3.9, and reports problems as `Problem`s instead of raising this package's errors.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple

REQUIRED_KEYS = ("input", "target", "answer_choices", "task_type", "task_dataset")
MISSING_ID = "xxxx"
PUBLIC_TASKS = ("CMeIE-V2", "Text2DT", "CMedCausal")
"""Tasks of the public 18-task edition only. A file with one of them belongs to that edition."""

_CDEE_FIELDS = ("主体词", "发生状态", "描述词", "解剖部位")
_CDEE_LISTS = ("描述词", "解剖部位")
REPORT_SECTIONS = ("主诉", "现病史", "辅助检查", "既往史", "诊断", "建议")

Structured = dict[str, list[dict[str, Any]]]
"""The answers of each task: a list of `{"sample_id", "answer"}` in input order."""


class Problem(NamedTuple):
    """A problem in a file: its place (empty if the text has it) and a text. Only a fatal problem makes the file
    unusable.
    """

    place: str
    text: str
    fatal: bool = True

    def __str__(self) -> str:
        level = "" if self.fatal else "warning"
        return ": ".join(filter(None, (level, self.place, self.text)))


class LineError(ValueError):
    """A prediction line cannot be parsed. The text gives the reason."""


class Edition(NamedTuple):
    """An edition: its name, its parsers in output order, and whether punctuation is converted to full width."""

    name: str
    parsers: dict[str, Callable[[str, object], Any]]
    full_width: bool


def parse_answer(task: str, target: str, choices: object, edition: Edition | None = None) -> Any:
    """The structured answer in a model's text. Raises LineError if `choices` (`answer_choices`) must be a list."""
    edition = edition or CCKS
    if edition.full_width:
        for half, full in ((":", "："), (",", "，"), (";", "；")):
            target = target.replace(half, full, 100)
    return edition.parsers[task](target, choices)


class Line(NamedTuple):
    """A valid line of a file: its place, its number and its JSON object."""

    number: int
    place: str
    value: dict[str, Any]


def answers(file: BinaryIO, edition: Edition | None = None) -> Iterator[tuple[str, dict[str, Any]] | Problem]:
    """The answers (task, item) of a predictions file and its problems, in input order."""
    for result in read_lines(file, edition=edition):
        if isinstance(result, Problem):
            yield result
            continue
        line = result.value
        try:
            answer = parse_answer(line["task_dataset"], line["target"], line["answer_choices"], edition)
        except LineError as error:
            yield Problem(result.place, str(error))
        else:
            yield line["task_dataset"], {"sample_id": line.get("sample_id", MISSING_ID), "answer": answer}


def read_lines(file: BinaryIO, *, answered: bool = True, edition: Edition | None = None) -> Iterator[Line | Problem]:
    """The valid lines of a file and the problems of the others, in input order. Reads the file several times.
    `answered=False` is for a test file: targets are not checked.
    """
    first = next((line for line in raw_lines(file) if line.strip()), b"")
    if first.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
        yield Problem("line 1", "a JSON list; write JSON lines instead, one object per line")
        return
    if not first or _is_gbk(file):
        gbk = "not UTF-8, probably GBK; save it as UTF-8, or use --encoding gbk of `promptcblue parse`"
        yield Problem("whole file", gbk if first else "contains no lines")
        return
    seen: dict[str, set[object]] = {}
    for number, raw in enumerate(raw_lines(file), 1):
        place = f"line {number}"
        if not raw.strip():
            yield Problem(place, "blank, skipped", fatal=False)
            continue
        try:
            line = _read_line(raw.removesuffix(b"\n"))
        except LineError as error:
            yield Problem(place, str(error))
            continue
        place += f", sample {line['sample_id']}" if "sample_id" in line else ""
        faults = [Problem(place, fault) for fault in _faults(line, answered, edition or CCKS)]
        yield from faults
        if not faults:
            ids = seen.setdefault(line["task_dataset"], set())
            if "sample_id" not in line:
                yield Problem(place, f"no sample_id; {MISSING_ID} is used", fatal=False)
            elif line["sample_id"] in ids:
                yield Problem(place, f"duplicate id in {line['task_dataset']}; both samples are used", fatal=False)
            ids.add(line.get("sample_id"))
            yield Line(number, place, line)


def raw_lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file from its start, without a byte order mark."""
    file.seek(0)
    for number, raw in enumerate(file):
        yield raw.removeprefix(b"\xef\xbb\xbf") if number == 0 else raw


def _is_gbk(file: BinaryIO) -> bool:
    """Whether the bytes are Chinese text in GBK or GB18030, and not damaged UTF-8: most of it must not be UTF-8."""
    try:
        for raw in raw_lines(file):
            raw.decode("utf-8")
        return False
    except UnicodeDecodeError:
        data = b"".join(raw_lines(file))
    text = data.decode("utf-8", "replace")
    if sum(char > "\x7f" for char in text) > 2 * (text.count("\ufffd") - data.count("\ufffd".encode())):
        return False
    try:
        others = [char for char in data.decode("gb18030") if char > "\x7f"]
    except UnicodeDecodeError:
        return False
    return 3 * sum(map(_is_common, others)) > 2 * len(others)


def _is_common(character: str) -> bool:
    """Whether a character is a Chinese mark, or on the first level of GB 2312 (bytes B0 to D7)."""
    first, *second = character.encode("gb2312", "ignore") or b"\0"
    return bool(second) and (first in (0xA1, 0xA3) or 0xB0 <= first <= 0xD7)


def load_json(text: str) -> Any:
    """Parse a JSON text. Raises LineError, including for an object with a duplicate key (one value would be lost)."""
    try:
        return json.loads(text, object_pairs_hook=unique_names)
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if "\n" in text else ""
        raise LineError(f"not JSON: {error.msg} at {line}column {error.colno}") from None
    except RecursionError:
        raise LineError("not usable: nested too deeply") from None
    except ValueError as error:
        raise error if isinstance(error, LineError) else LineError(f"not usable: {error}") from None


def unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The JSON object of these members. Raises LineError for a duplicate key."""
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        raise LineError(f"the key {next(n for n in names if names.count(n) > 1)!r} occurs twice in one object")
    return value


def _read_line(raw: bytes) -> dict[str, Any]:
    try:
        line = load_json(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise LineError(f"not UTF-8 at byte {error.start + 1}") from None
    if not isinstance(line, dict):
        raise LineError(f"a JSON {type(line).__name__}, not an object")
    if b"\\u" in raw:
        try:
            json.dumps(line, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError:
            raise LineError("half of a surrogate pair (such as \\ud83d), which UTF-8 cannot hold") from None
    return line


def _faults(line: dict[str, Any], answered: bool, edition: Edition) -> Iterator[str]:
    for key in REQUIRED_KEYS:
        if key not in line and (answered or key != "target"):
            yield f"no {key}"
    if answered and "target" in line and not isinstance(line["target"], str):
        yield "target is not a text"
    if "sample_id" in line and not is_sample_id(line["sample_id"]):
        yield "sample_id is neither a text nor a whole number"
    if "task_dataset" not in line:
        return
    task = line["task_dataset"]
    if not isinstance(task, str) or task not in edition.parsers:
        yield unknown_task(task, edition)
    elif edition.parsers[task] in (_entities, _triples) and not isinstance(line.get("answer_choices", []), list):
        yield f"answer_choices is not a list, and {task} needs one"


def is_sample_id(value: object) -> bool:
    """Whether a value can be a sample id: a text or a whole number."""
    return isinstance(value, (str, int)) and not isinstance(value, bool)


def unknown_task(name: object, edition: Edition | None = None) -> str:
    """The message for a task name that is not in the edition."""
    edition = edition or CCKS
    if isinstance(name, str) and name in PUBLIC_TASKS:
        return f"{name} is a task of the public 18-task edition, not of this one ({edition.name})"
    if edition is not CCKS and isinstance(name, str) and name in CCKS.parsers:
        return f"{name} is a task of the edition with {CCKS.name}, not of this one ({edition.name})"
    return f"unknown task {name!r}; the tasks are {', '.join(edition.parsers)}"


def _as_list(choices: object) -> list[Any]:
    if not isinstance(choices, list):
        raise LineError("answer_choices is not a list, and an answer has to be looked up in it")
    return choices


def _parts(text: str) -> list[str]:
    return [part for part in map(str.strip, text.split("，")) if part]


def _entities(target: str, choices: object) -> list[dict[str, Any]]:
    lines = target.split("\n")
    entities = []
    for kind in _as_list(choices):
        for line in lines:
            if line.startswith(f"{kind}实体"):
                parts = _parts(line.replace(f"{kind}实体：", ""))
                entities += [{"entity": part, "type": kind} for part in parts]
    return entities


def _triples(target: str, choices: object) -> list[dict[str, str]]:
    _as_list(choices)  # must be a list, although the predicate is not checked against it
    triples = []
    for line in target.split("\n"):
        predicate = line.split("关系的头尾实体对")[0][2:].strip()
        for part in line.replace(f"具有{predicate}关系的头尾实体对如下：", "").split("。"):
            head, *tails = part.split("，尾实体为")
            if tails:
                subject, tail = head.replace("头实体为", "").strip(), tails[0].replace("尾实体为", "").strip()
                triples.append({"predicate": predicate, "subject": subject, "object": tail})
    return triples


def _normalised(target: str, choices: object) -> list[dict[str, str]]:
    # The official parser returns a set in random order. Here, the order of appearance is used.
    named = dict.fromkeys(part for part in _parts(target.split("\n")[-1]) if part in _as_list(choices))
    return [{"entity": entity, "type": "normalization"} for entity in named]


def _events(target: str, choices: object) -> list[dict[str, Any]]:
    return [_event(line) for line in target.split("\n")[1:]]


def _event(line: str) -> dict[str, Any]:
    event: dict[str, Any] = {field: [] if field in _CDEE_LISTS else "" for field in _CDEE_FIELDS}
    for piece in line.split("；"):
        for field in _CDEE_FIELDS:
            if piece.startswith(f"{field}："):
                piece = piece.replace(f"{field}：", "").strip()
                event[field] = _parts(piece) if field in _CDEE_LISTS else piece
    return event


def attributes(fallback: str) -> Callable[[str, object], list[dict[str, str]]]:
    """The parser of `entity：attribute` lines. An attribute that is not among the choices becomes `fallback`."""

    def parse(target: str, choices: object) -> list[dict[str, str]]:
        pairs = []
        for line in target.split("\n")[1:]:
            if line.count("：") == 1:
                entity, attr = line.split("：")
                pairs.append({"entity": entity.strip(), "attr": attr if attr in _as_list(choices) else fallback})
        return pairs

    return parse


def _report(target: str, choices: object) -> dict[str, str]:
    lines = target.strip().split("\n")[1:]
    return {
        name: line.strip().split(f"{name}：")[-1].strip()
        for name in REPORT_SECTIONS
        for line in lines
        if line.startswith(f"{name}：")
    }


def _same_or_not(target: str, choices: object) -> str:
    answer = target.strip()
    return {"相同": "是的", "不同": "不是"}.get(answer, answer)


def _text(target: str, choices: object) -> str:
    return target.strip()


PARSERS: dict[str, Callable[[str, object], Any]] = {
    "CMeEE-V2": _entities,
    "CMeIE": _triples,
    "CHIP-CDN": _normalised,
    "CHIP-CDEE": _events,
    "CHIP-STS": _same_or_not,
    "CHIP-CTC": _text,
    "CHIP-MDCFNPC": attributes("无实际意义的不标注或者和病人当前的状态独立不标注"),
    "KUAKE-IR": _text,
    "KUAKE-QIC": _text,
    "KUAKE-QQR": _text,
    "KUAKE-QTR": _text,
    "MedDG": _text,
    "IMCS-V2-MRG": _report,
    "IMCS-V2-NER": _entities,
    "IMCS-V2-DAC": _text,
    "IMCS-V2-SR": attributes("无法根据上下文确定病人是否患有该症状"),
}
"""The parser of each task, in output order."""
CCKS = Edition("16 tasks, CCKS 2023", PARSERS, True)
"""The edition of the shared task."""


def read_predictions(path: str, take: Callable[..., object], edition: Edition | None = None) -> list[Problem]:
    """Call `take(task, item)` for each answer in a file. Returns the problems with the file's path. Raises OSError."""
    empty, problems = dict.fromkeys((edition or CCKS).parsers), []
    with open(path, "rb") as file:
        for result in answers(file if file.seekable() else io.BytesIO(file.read()), edition):
            if isinstance(result, Problem):
                problems.append(result._replace(place=f"{path}: {result.place}"))
            else:
                empty.pop(result[0], None)
                take(*result)
    if empty and not is_fatal(problems):
        problems.append(Problem(path, f"no line of {', '.join(empty)}", fatal=False))
    return problems


def is_fatal(problems: Iterable[Problem]) -> bool:
    """Whether one of the problems makes the file unusable."""
    return any(problem.fatal for problem in problems)


def convert(predictions: str, results: str, edition: Edition | None = None) -> list[Problem]:
    """Parse a file into a results file (UTF-8, indented by 2), unless a problem is fatal. Raises OSError."""
    # Answers are stored as the JSON text to write, which takes a fraction of the memory of objects.
    written = {task: io.BytesIO() for task in (edition or CCKS).parsers}

    def take(task: str, item: dict[str, Any]) -> None:
        text = json.dumps([[item]], ensure_ascii=False, indent=2)[len("[\n  [") : -len("\n  ]\n]")]
        written[task].write((("," if written[task].tell() else "") + text).encode("utf-8"))

    problems = read_predictions(predictions, take, edition)
    if not is_fatal(problems):
        parts = [b"{"]
        for task, items in written.items():
            end = b"\n  ]," if items.tell() else b"],"
            parts += [f"\n  {json.dumps(task, ensure_ascii=False)}: [".encode(), items.getvalue(), end]
        write_aside(results, [*parts[:-1], parts[-1][:-1], b"\n}"])
    return problems


def write_aside(path: str, parts: Sequence[bytes]) -> None:
    """Write a temporary file and rename it. A file with the same content is not replaced. Raises OSError."""
    if os.path.isfile(path):
        with open(path, "rb") as held:
            if all(held.read(len(part)) == part for part in parts) and not held.read(1):
                return
    aside = f"{path}.{os.getpid()}.tmp"
    try:
        with open(aside, "wb") as file:
            file.writelines(parts)
        os.replace(aside, path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None
    finally:
        if os.path.exists(aside):
            os.unlink(aside)


def main(arguments: list[str]) -> int:
    """The command line of a submission's script. Returns the exit code."""
    if len(arguments) != 2:
        print("usage: python post_generate_process.py test_predictions.json test_structured.json", file=sys.stderr)
        return 1
    try:
        problems = convert(arguments[0], arguments[1])
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    for problem in problems:
        print(problem, file=sys.stderr)
    return int(is_fatal(problems))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
