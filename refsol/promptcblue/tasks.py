"""The tasks of both editions as the scorers define them, in the order of the official score files.

Names, averages and first labels are the observed behaviour of the published scorer. Four tasks that it reports as
micro-F1 are in fact averaged with each class's support as weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from refsol.errors import InputError
from refsol.promptcblue.parse import CCKS, Edition, unknown_task
from refsol.promptcblue.public import PUBLIC


class AnswerKind(Enum):
    """The format of a task's answers, which decides how they are scored."""

    EXTRACTION = "a list of objects"
    CLASSES = "a label"
    TEXT = "a text"
    REPORT = "an object of sections"
    TREE = "the nodes of a decision tree"


class Average(Enum):
    """How precision, recall and F1 are averaged over the classes."""

    MACRO = "macro"
    WEIGHTED = "weighted"
    MICRO = "micro"


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """One task. `metric` is the official name of its main score. The fields after it apply to one kind each."""

    name: str
    kind: AnswerKind
    metric: str
    plain_metric: str = ""
    """The name of the main score under plain metrics, if it differs."""
    texts: tuple[str, ...] = ()
    """Extraction: the keys whose values are texts."""
    nullable: tuple[str, ...] = ()
    """Extraction: the texts that a prediction may leave null, as the official parser does; those entries are wrong."""
    lists: tuple[str, ...] = ()
    """Extraction: the keys whose values are lists of texts."""
    objects: tuple[str, ...] = ()
    """Extraction: the keys whose values are a text or an object of texts."""
    empty_label: str = ""
    """Classes: the label that an empty prediction counts as, which is the first of the task's list."""
    average: Average = Average.MACRO


def _extraction(name: str, *texts: str, lists: tuple[str, ...] = (), plain: str = "") -> TaskSpec:
    return TaskSpec(name, AnswerKind.EXTRACTION, "Micro-F1", plain, texts=texts, lists=lists)


def _macro(name: str) -> TaskSpec:
    return TaskSpec(name, AnswerKind.CLASSES, "Macro-F1", empty_label="非上述类型")


def _weighted(name: str, empty_label: str) -> TaskSpec:
    return TaskSpec(
        name, AnswerKind.CLASSES, "Micro-F1", "True-Micro-F1", empty_label=empty_label, average=Average.WEIGHTED
    )


TASKS: tuple[TaskSpec, ...] = (
    _extraction("CMeEE-V2", "entity", "type"),
    _extraction("CMeIE", "predicate", "subject", "object"),
    _extraction("CHIP-CDN", "entity", "type"),
    _extraction("CHIP-CDEE", "主体词", "发生状态", lists=("描述词", "解剖部位"), plain="Set-Micro-F1"),
    _extraction("IMCS-V2-NER", "entity", "type"),
    _extraction("CHIP-MDCFNPC", "entity", "attr"),
    _extraction("IMCS-V2-SR", "entity", "attr"),
    _macro("IMCS-V2-DAC"),
    TaskSpec("IMCS-V2-MRG", AnswerKind.REPORT, "RougeL"),
    _macro("CHIP-CTC"),
    _weighted("CHIP-STS", "是的"),
    _weighted("KUAKE-IR", "相关"),
    _macro("KUAKE-QIC"),
    _weighted("KUAKE-QQR", "完全一致"),
    _weighted("KUAKE-QTR", "完全不匹配或者没有参考价值"),
    TaskSpec("MedDG", AnswerKind.TEXT, "RougeL"),
)


_PUBLIC_NAMES = {"CMeIE": "CMeIE-V2"}
PUBLIC_SPECS: tuple[TaskSpec, ...] = (
    *(replace(task, name=_PUBLIC_NAMES.get(task.name, task.name)) for task in TASKS),
    TaskSpec("Text2DT", AnswerKind.TREE, "TreeLenvRatio"),
    TaskSpec(
        "CMedCausal",
        AnswerKind.EXTRACTION,
        "Micro-F1",
        texts=("predicate", "subject"),
        nullable=("predicate",),
        objects=("object",),
    ),
)
"""The tasks of the public edition of 18."""


def specs_of(edition: Edition) -> tuple[TaskSpec, ...]:
    """All tasks of an edition."""
    return PUBLIC_SPECS if edition is PUBLIC else TASKS


def is_whole(tasks: Sequence[TaskSpec]) -> bool:
    """Whether these are all tasks of an edition."""
    return {task.name for task in tasks} in ({task.name for task in TASKS}, {task.name for task in PUBLIC_SPECS})


def select_tasks(names: str | None, edition: Edition = CCKS) -> tuple[TaskSpec, ...]:
    """The tasks of a comma-separated list, in the official order. None means all tasks. Raises InputError."""
    specs = specs_of(edition)
    if names is None:
        return specs
    selected = {name.strip() for name in names.split(",")} - {""}
    unknown = sorted(selected - {task.name for task in specs})
    if unknown or not selected:
        raise InputError(f"--tasks: {unknown_task(unknown[0], edition) if unknown else 'no task is named'}")
    return tuple(task for task in specs if task.name in selected)
