"""A `Report` is what a run came to, in one form for all benchmarks; tables, JSON and comparisons are views of it.

It is written as `report.json`, its items as `items.jsonl`. A benchmark may add fields of its own (MedAgentBench its
grades, SimpleQA its sections): they stand beside the common ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, field_serializer
from pydantic.dataclasses import dataclass as pydantic_dataclass

from medagent.core.options import Setting
from medagent.core.wire import Text
from medagent.engine._notebook import NotebookViews
from medagent.engine.rows import Spent
from medagent.models.base import MadeCall

Measure = Literal["percent", "points", "score"]
"""How values are written: 0.917 as `91.7 %`, `91.70`, or `0.9170`."""


PUBLISHED_FIGURES = "Published figures"
"""The title of a section with what others published for the same items."""


class DataRef(BaseModel):
    """The data that a score was measured on; `digest` is its SHA-256, `note` what a reader of a score must know."""

    model_config = ConfigDict(frozen=True)

    name: str
    version: str = ""
    digest: str = ""
    note: str = ""
    left_out: tuple[str, ...] = ()
    """Ids of items that a run leaves out, since its patients lack what they need."""


class GroundedRate(BaseModel):
    """How many items are right for the right reason (`right`), of all graded items that need a reading (`n`).

    `lucky` are right, though their agent had not read what decides. `note` says why there is no rate.
    """

    model_config = ConfigDict(frozen=True)

    right: int
    n: int
    lucky: int = 0
    value: float | None = None
    interval: tuple[float, float] | None = None
    note: Text = ""


class TableLine(BaseModel):
    """A line of the table: a group of items. `counts` are whole numbers with their names, `value` the figure (None: no
    item), `interval` its 95 % interval, `more` further figures, `grounded` the same items by whether their agent had
    read what decides (None: the benchmark does not say).
    """

    model_config = ConfigDict(frozen=True)

    name: str
    n: int
    value: float | None = None
    interval: tuple[float, float] | None = None
    counts: dict[str, int] = {}
    more: dict[str, int | float | None] = {}
    grounded: GroundedRate | None = None


class TableSection(BaseModel):
    """Lines that stand together. A title begins a table of its own, whose columns for names, figures and numbers of
    items may have names of their own.
    """

    model_config = ConfigDict(frozen=True)

    lines: tuple[TableLine, ...]
    title: str = ""
    name: str = ""
    figure: str = ""
    count: str = ""


@pydantic_dataclass(frozen=True, slots=True, kw_only=True)
class ItemOutcome:
    """How one item of one trial ended: `correct` where it is right or wrong, `score` where it is a number (0 to 1);
    both None where it was not graded.
    """

    item: str
    trial: int = 1
    group: str = ""
    cluster: str = ""
    """What it has in common with a few other items, which are no independent ones: the question in other languages."""
    status: str = "completed"
    correct: bool | None = None
    score: float | None = None
    reason: Text = ""
    kind: str = ""
    """Why it is wrong, one of the benchmark's closed list; empty where it is right or the benchmark has none."""
    because: Text = ""
    """The facts that the verdict rests on."""
    finish_reasons: tuple[str, ...] = ()
    """Why replies ended that the model did not end itself, such as `length`, each once."""
    grounded: bool | None = None
    """Whether it is right and its agent had read what decides; None if nothing has to be read, or nobody can tell."""
    reading: Text = ""
    """What the agent of a right item had not read, or why `grounded` is None."""

    @property
    def is_lucky(self) -> bool:
        """Whether it is right, though its agent had not read what decides."""
        return self.correct is True and self.grounded is False

    @property
    def value(self) -> float | None:
        """The score, 0 or 1 where it is right or wrong."""
        return self.score if self.correct is None else float(self.correct)


class Report(NotebookViews, BaseModel):
    """What a run came to. `figure` names the value, `count` the number of items it rests on, in tables."""

    model_config = ConfigDict(frozen=True, extra="allow")

    benchmark: str
    folder: str
    data: DataRef = DataRef(name="")
    settings: dict[str, Setting] = {}
    versions: dict[str, str] = {}
    """Of what ran it: medagent, its commit, Python, packages."""
    rule_set: str = ""
    """The rule set of the score, where the benchmark has several."""
    digests: dict[str, str] = {}
    """Of what the scores depend on, beside the journals: facts, gold."""
    started: str = ""
    ended: str = ""
    """When the first unit began and the last one ended."""
    measure: Measure = "percent"
    figure: str = "rate"
    count: str = "n"
    table: tuple[TableSection, ...] = ()
    overall: TableLine | None = None
    items: Sequence[ItemOutcome] = ()
    notes: tuple[Text, ...] = ()
    spent: Spent = Spent()
    spending: dict[str, Spent] = {}
    """The same by who was called: `model gpt-4o`, `judge j`."""
    unpriced: int = 0
    """Calls whose cost is unknown."""
    finish_reasons: dict[str, int] = {}
    """Replies of the units' last rows that the model did not end itself, by their finish reason."""
    endings: dict[str, int] = {}
    failed: tuple[Text, ...] = ()
    """Every unit that failed instead of ending with an answer: its key, status and error."""
    owed: tuple[str, ...] = ()
    """Units of the last command's selection that have no row yet, or failed."""
    ungraded: int = 0
    """Items of the last command's selection that have an answer but could not be graded, without those that
    --allow-unread allows.
    """
    unusable: Text = ""
    """Why the answers are no measure: too many of them are empty, cut off or nothing but thinking."""
    stopped: str | None = None
    """What ended the last command early, or the limit that it came to be above."""
    command: str = ""
    reused: int = 0
    """Units that were finished before the last command, and that it took as they were; no file holds it."""
    files: tuple[str, ...] = ()
    slowest: float = 0.0
    """Seconds of the unit that took longest."""
    learned: tuple[str, ...] = ()
    """The units that the agent learned from, in order."""
    journals: dict[str, str] = {}
    """The journals it rests on: the bytes of each and their CRC-32."""

    @field_serializer("items", mode="wrap")
    def _listed(self, items: Sequence[ItemOutcome], listed: SerializerFunctionWrapHandler) -> Any:
        return listed(tuple(items))  # those of a stored report are read from their file

    @property
    def complete(self) -> bool:
        """Whether everything that was asked is done and graded, by answers that can be used."""
        return not (self.owed or self.ungraded or self.stopped or self.unusable)

    def error_of(self, item: ItemOutcome) -> str:
        """What the unit of an item that failed ended with; empty for any other."""
        units = (f"{item.item}#{item.trial}: ", *([f"{item.item}: "] if item.trial == 1 else []))
        line = next((line for line in self.failed if line.startswith(units)), "")
        return line.partition(": ")[2].partition(": ")[2]

    @property
    def details(self) -> dict[str, Any]:
        """The benchmark's own fields."""
        return self.model_extra or {}


REQUESTS = "requests"
"""The role of a message that holds the requests of a program: their number, then each with its reply."""


@dataclass(frozen=True, slots=True)
class ShownMessage:
    """One message of a shown item; `role` heads it, `reasoning` is what was thought apart."""

    role: str
    text: Text
    reasoning: Text | None = None
    call: MadeCall | None = None
    """The tool call that the text was made from."""


@dataclass(frozen=True, slots=True)
class ItemView:
    """One item for reading: what was said, and what came of it, a line each. `decides` are texts in the messages that
    the verdict rests on: the times of the readings that decide.
    """

    messages: Sequence[ShownMessage]
    lines: Sequence[str]
    decides: Sequence[str] = ()


def by_trial(items: Iterable[ItemOutcome]) -> dict[str, list[bool]]:
    """Each item's graded trials, whether right; items without one are left out."""
    trials: dict[str, list[bool]] = {}
    for item in items:
        if item.correct is not None:
            trials.setdefault(item.item, []).append(item.correct)
    return trials
