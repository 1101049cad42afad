"""The public edition of 18 tasks: CMeIE-V2 replaces CMeIE, and Text2DT and CMedCausal are new.

The rules are the published parser's of this edition. It differs from the shared task's parser in three points:
punctuation is not changed, CHIP-MDCFNPC uses another label for attributes outside its list, and the two tasks are new.
A line on which that parser crashes (no head entity, no role) is read as empty.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, BinaryIO

from refsol.json_values import unicode_text
from refsol.promptcblue.parse import CCKS, PARSERS, PUBLIC_TASKS, Edition, attributes, load_json, raw_lines
from refsol.python_text import python_value

_CAUSES, _CONDITIONS, _KINDS = "因果关系", "条件关系", "上下位关系"
_HEADINGS = (("因果关系三元组如下", _CAUSES), ("条件关系三元组", _CONDITIONS), ("上下位关系", _KINDS))
_NONE = "给定的文本没有指定关系的三元组"
_TREE_HEADING = "根据给定的指南文本抽取的诊疗决策树"
_EMPTY_TREE = {"role": "D", "logical_rel": "null", "triples": []}


def _between(text: str, start: str, end: str) -> str | None:
    """The text after the first `start`, up to the first `end` after it. None without `start`."""
    _, separator, rest = text.partition(start)
    return rest.split(start)[0].split(end)[0] if separator else None


def _causes(target: str, choices: object) -> list[dict[str, Any]]:
    triples: list[dict[str, Any]] = []
    relation = None
    for line in map(str.strip, target.split("\n")):
        heading = next((name for words, name in _HEADINGS if words in line), None)
        if heading is not None:
            relation = heading
        elif _NONE in line:
            break
        elif line and (triple := _triple(line, relation)) is not None:
            triples.append(triple)
    return triples


def _triple(line: str, relation: str | None) -> dict[str, Any] | None:
    subject = _between(line, "头实体：", "；尾实体：")
    if subject is None:
        return None
    if relation != _CONDITIONS:
        parts = line.split("；尾实体：")
        return {"predicate": relation, "subject": subject, "object": parts[1]} if len(parts) > 1 else None
    tail = _between(line, "；尾三元组：", "；尾三元组：")
    if tail is None:
        return None
    head, end, kind = (
        _between(tail, "头实体：", "；尾实体："),
        _between(tail, "；尾实体：", "；关系："),
        _between(tail, "；关系：", "；关系："),
    )
    if head is None or end is None or kind != _CAUSES:
        return None
    inner = {"predicate": kind, "subject": head, "object": end}
    return {"predicate": relation, "subject": subject, "object": inner}


def _tree(target: str, choices: object) -> list[dict[str, Any]]:
    """The nodes of a decision tree in preorder. A text without nodes gives one empty decision."""
    nodes = []
    for line in target.split("\n"):
        if not line or _TREE_HEADING in line:
            continue
        role = _between(line, "：role=", "；logical_rel=")
        if role is None:
            continue
        logical = _between(line, "；logical_rel=", "；triples=")
        nodes.append(
            {"role": role, "logical_rel": "null" if logical is None else logical, "triples": _node_triples(line)}
        )
    return nodes or [{**_EMPTY_TREE, "triples": []}]


def _node_triples(line: str) -> list[list[str]]:
    """The triples that a node gives as a Python list. Entries that are not three texts are left out."""
    written = line.split("；triples=")
    try:
        literal = python_value(written[1].strip()) if len(written) > 1 else []
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return []
    listed = literal if isinstance(literal, list) else []
    return [
        list(triple)
        for triple in listed
        if isinstance(triple, list | tuple)
        and len(triple) == 3
        and all(isinstance(part, str) and part == unicode_text(part) for part in triple)
    ]


PUBLIC = Edition(
    "18 tasks, public",
    {
        **{"CMeIE-V2" if task == "CMeIE" else task: parser for task, parser in PARSERS.items()},
        "CHIP-MDCFNPC": attributes("不标注"),
        "Text2DT": _tree,
        "CMedCausal": _causes,
    },
    False,
)
"""The public edition."""


EDITIONS: dict[str, Edition] = {"ccks": CCKS, "public": PUBLIC}
"""The editions by their option values."""


def edition_of(tasks: Iterable[object]) -> Edition:
    """The edition of some tasks: the public one if one of them exists only there."""
    return PUBLIC if any(task in PUBLIC_TASKS for task in tasks if isinstance(task, str)) else CCKS


def edition_of_lines(file: BinaryIO) -> Edition:
    """The edition of a test or predictions file, detected from the tasks of its lines."""
    return edition_of(_task(line) for line in raw_lines(file) if _may_be_public(line))


def _may_be_public(line: bytes) -> bool:
    """Whether a line may belong to a task of the public edition only. JSON can spell its letters as escapes."""
    return b"task_dataset" in line and (b"\\u" in line or any(task.encode() in line for task in PUBLIC_TASKS))


def _task(line: bytes) -> object:
    try:
        value = load_json(line.decode("utf-8", "replace"))
    except ValueError:
        return None
    return value.get("task_dataset") if isinstance(value, dict) else None
