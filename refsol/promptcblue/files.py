"""Read structured files (results and gold) and check them before scoring. One pass reports all problems.

The check is stricter than the published scorer, which crashes on some malformed answers and silently counts others as
wrong. Oddities that do not affect the score (an extra task) are warnings.
"""

from __future__ import annotations

import io
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from refsol.errors import InputError, Lines
from refsol.files import MAX_LISTED, Encoding, InputFile
from refsol.promptcblue.parse import (
    CCKS,
    REPORT_SECTIONS,
    Edition,
    LineError,
    Problem,
    Structured,
    answers,
    convert,
    is_fatal,
    is_sample_id,
    load_json,
    unknown_task,
)
from refsol.promptcblue.public import edition_of, edition_of_lines
from refsol.promptcblue.tasks import AnswerKind, TaskSpec, is_whole

_NAMED_IDS = 10
_REPORT_FORM = (
    "the answer must be an object of sections, not the report as one text: the published description of the results"
    " file asks for a text, but the official scorer crashes on one; write the object that the official parser makes"
    " (promptcblue parse)"
)


class ProblemsError(InputError):
    """The files cannot be used. The text contains one line per problem: first the fatal ones, then the warnings, at
    most MAX_LISTED in total.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda problem: not problem.fatal))
        more = len(self.problems) - MAX_LISTED
        lines = [*map(str, self.problems[:MAX_LISTED]), *([f"and {more} more"] if more > 0 else [])]
        super().__init__(Lines("\n".join(line.replace("\n", " ") for line in lines)))


def edition_of_file(predictions: Path, encoding: Encoding = "utf-8") -> Edition:
    """Detect the edition from the tasks in a predictions file. Raises InputError if the file cannot be read."""
    with _in_utf8(predictions, encoding) as file:
        return edition_of_lines(file)


def parse_file(
    predictions: Path, results: Path, edition: Edition | None = None, encoding: Encoding = "utf-8"
) -> tuple[Problem, ...]:
    """Parse a predictions file into a results file and return the warnings. The default edition is the detected one.

    Raises ProblemsError (with all problems) or InputError (a file cannot be read or written). Then nothing is written.
    """
    edition = edition or edition_of_file(predictions, encoding)
    try:
        if encoding == "utf-8":
            problems = convert(str(predictions), str(results), edition)
        else:
            with _in_utf8(predictions, encoding) as source, tempfile.NamedTemporaryFile() as copy:
                copy.write(source.read())
                copy.flush()
                in_copy = convert(copy.name, str(results), edition)
            problems = [
                problem._replace(place=problem.place.replace(copy.name, str(predictions), 1)) for problem in in_copy
            ]
    except OSError as error:
        raise InputError(f"{error.filename}: {error.strerror}") from None
    if is_fatal(problems):
        raise ProblemsError(problems)
    return tuple(problems)


def _in_utf8(path: Path, encoding: Encoding) -> BinaryIO:
    """Open a file as UTF-8. Raises InputError if it cannot be opened or is in another encoding."""
    try:
        if encoding == "utf-8":
            return path.open("rb")
        return io.BytesIO(path.read_bytes().decode(encoding).encode())
    except OSError as error:
        raise InputError(f"{error.filename}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not {encoding.upper()} at byte {error.start + 1}") from None


def parse_predictions(data: bytes, edition: Edition | None = None) -> tuple[Structured, list[Problem]]:
    """The answers of a predictions file and all its problems. The answers are complete if no problem is fatal."""
    structured: Structured = {task: [] for task in (edition or CCKS).parsers}
    problems: list[Problem] = []
    for result in answers(io.BytesIO(data), edition):
        if isinstance(result, Problem):
            problems.append(result)
        else:
            structured[result[0]].append(result[1])
    return structured, problems


@dataclass(frozen=True, slots=True)
class StructuredFile:
    """The content of a structured file and its problems so far. `name` is the name in messages."""

    name: str
    value: Mapping[str, Any]
    problems: tuple[Problem, ...] = ()
    edition: Edition = CCKS


def read_structured(path: Path, edition: Edition | None = None, encoding: Encoding = "utf-8") -> StructuredFile:
    """Read a results or gold file. The default edition is detected from its tasks. Problems go into the result."""
    name = str(path)
    try:
        value: Any = load_json(InputFile(path, encoding=encoding).text())
        if not isinstance(value, dict):
            raise LineError("must be an object with the answers by task")
    except InputError as error:
        return StructuredFile(name, {}, (Problem("", str(error)),))
    except LineError as error:
        return StructuredFile(name, {}, (Problem(name, str(error)),))
    edition = edition or edition_of(value)
    extra = [task for task in value if task not in edition.parsers]
    odd = (Problem(name, f"{unknown_task(task, edition)}; it is not scored", fatal=False) for task in extra)
    return StructuredFile(name, value, tuple(odd), edition)


def check_pair(predicted: StructuredFile, gold: StructuredFile, tasks: Sequence[TaskSpec]) -> tuple[Problem, ...]:
    """Check the format of both files and that their sample ids agree. Returns the warnings.

    Raises ProblemsError with all problems of both files.
    """
    problems, of_gold = [*predicted.problems], [*gold.problems]
    of_pairs: list[Problem] = []
    for task in tasks:
        sound = _check_task(predicted, task, problems, is_gold=False)
        if not _check_task(gold, task, of_gold, is_gold=True) or not sound:
            continue
        gold_items, items_of_task = gold.value[task.name], predicted.value[task.name]
        place = f"{predicted.name}: {task.name}"
        of_pairs += [Problem(place, fault) for fault in _id_faults(_ids(gold_items), _ids(items_of_task))]
        if not gold_items and not items_of_task and is_whole(tasks):
            of_pairs.append(Problem(f"{gold.name}: {task.name}", "no samples; name the other tasks with --tasks"))
    problems += [*of_gold, *of_pairs]
    if is_fatal(problems):
        raise ProblemsError(problems)
    return tuple(problems)


def _check_task(source: StructuredFile, task: TaskSpec, problems: list[Problem], *, is_gold: bool) -> bool:
    """Append the problems of one task in one file. Returns whether the task can be compared."""
    if is_fatal(source.problems):
        return False
    place = f"{source.name}: {task.name}"
    items = source.value.get(task.name)
    if task.name not in source.value:
        problems.append(Problem(place, "the task is missing"))
        return False
    if not isinstance(items, list):
        problems.append(Problem(place, "must be a list of {sample_id, answer}"))
        return False
    sound = True
    for number, item in enumerate(items, 1):
        for fault in _item_faults(task, item, is_gold=is_gold):
            named = f", sample {item['sample_id']}" if isinstance(item, dict) and "sample_id" in item else ""
            problems.append(Problem(f"{place}, item {number}{named}", fault))
            sound = False
        if task.kind is AnswerKind.REPORT and sound and not is_gold:
            problems += [
                Problem(f"{place}, item {number}, sample {item['sample_id']}", f"section {name} is not scored", False)
                for name in _other_sections(item["answer"])
            ]
    if sound and is_gold and task.kind is AnswerKind.REPORT and items and not any(item["answer"] for item in items):
        problems.append(Problem(place, "no report contains a section, so there is nothing to score"))
    return sound


def _item_faults(task: TaskSpec, item: object, *, is_gold: bool) -> Iterator[str]:
    if not isinstance(item, dict):
        yield "must be an object {sample_id, answer}"
        return
    if "sample_id" not in item:
        yield "no sample_id"
    elif not is_sample_id(item["sample_id"]):
        yield "sample_id is neither a text nor a whole number"
    if "answer" not in item:
        yield "no answer"
        return
    answer = item["answer"]
    if task.kind is AnswerKind.EXTRACTION:
        yield from _extraction_faults(task, answer, () if is_gold else task.nullable)
    elif task.kind is AnswerKind.TREE:
        yield from _tree_faults(answer)
    elif task.kind is AnswerKind.REPORT:
        if not isinstance(answer, dict):
            yield _REPORT_FORM if isinstance(answer, str) else "the answer must be an object of sections"
        else:
            yield from (f"section {name} is not a text" for name, text in answer.items() if not isinstance(text, str))
            if is_gold:
                yield from (f"section {name} is not one of the six" for name in _other_sections(answer))
    elif not isinstance(answer, str):
        yield "the answer must be a text"
    elif task.kind is AnswerKind.CLASSES and is_gold and answer.endswith("\0"):
        yield "the gold label ends in a NUL character"
    elif task.kind is AnswerKind.CLASSES and is_gold and not answer:
        yield "the gold label is empty"


def _other_sections(report: dict[str, Any]) -> list[str]:
    return [name for name in report if name not in REPORT_SECTIONS]


def _extraction_faults(task: TaskSpec, answer: object, nullable: Sequence[str]) -> Iterator[str]:
    if not isinstance(answer, list):
        yield "the answer must be a list of objects"
        return
    keys = {*task.texts, *task.lists, *task.objects}
    for number, entry in enumerate(answer, 1):
        if not isinstance(entry, dict):
            yield f"entry {number} of the answer is not an object"
            continue
        if entry.keys() != keys:
            present = ", ".join(entry) or "none"
            required = ", ".join(task.texts + task.lists + task.objects)
            yield f"entry {number} of the answer must have the keys {required}; found {present}"
        for key in entry.keys() & keys:
            if entry[key] is None and key in nullable:
                continue
            if key in task.texts and not isinstance(entry[key], str):
                yield f"entry {number} of the answer: {key} is not a text"
            elif key in task.lists and not _is_texts(entry[key]):
                yield f"entry {number} of the answer: {key} is not a list of texts"
            elif key in task.objects and not _is_text_or_object(entry[key]):
                yield f"entry {number} of the answer: {key} is neither a text nor an object of texts"


def _tree_faults(answer: object) -> Iterator[str]:
    if not isinstance(answer, list) or not answer:
        yield "the answer must be a list of nodes, with one at least"
        return
    for number, node in enumerate(answer, 1):
        if not isinstance(node, dict) or not {"role", "logical_rel", "triples"} <= node.keys():
            yield f"node {number} must be an object with role, logical_rel and triples"
        elif not isinstance(node["role"], str) or not isinstance(node["logical_rel"], str):
            yield f"node {number}: role and logical_rel must be texts"
        elif not isinstance(node["triples"], list) or not all(
            _is_texts(triple) and len(triple) == 3 for triple in node["triples"]
        ):
            yield f"node {number}: triples must be a list of lists of three texts"


def _is_text_or_object(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, dict) and _is_texts(list(value.values())))


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(element, str) for element in value)


def _ids(items: Iterable[dict[str, Any]]) -> list[str | int]:
    return [item["sample_id"] for item in items]


def _id_faults(gold: list[str | int], predicted: list[str | int]) -> Iterator[str]:
    if gold == predicted:
        return
    missing, surplus = Counter(gold) - Counter(predicted), Counter(predicted) - Counter(gold)
    doubled = [sample for sample in surplus if sample in set(gold)]
    unknown = [sample for sample in surplus if sample not in set(gold)]
    for what, samples in (("missing", missing), ("doubled", doubled), ("not in the gold", unknown)):
        if samples:
            yield f"samples {what}: {_named(list(samples))}"
    if not missing and not surplus:
        at = next(index for index, pair in enumerate(zip(gold, predicted, strict=True)) if pair[0] != pair[1])
        yield f"item {at + 1}, sample {predicted[at]}: the samples are in another order; the gold shows {gold[at]} here"


def _named(samples: list[str | int]) -> str:
    more = f" and {len(samples) - _NAMED_IDS} more" if len(samples) > _NAMED_IDS else ""
    return ", ".join(map(str, samples[:_NAMED_IDS])) + more
