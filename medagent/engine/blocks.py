"""The blocks of a report page, as data. The function in `blocks.js` with a block's name renders it.

Benchmarks make blocks, and the page does not depend on any benchmark. All texts are plain text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

from medagent.engine.rows import Row


@dataclass(frozen=True, slots=True)
class Block:
    """The base of blocks. `name` is the function that renders it."""

    name: ClassVar[str]


@dataclass(frozen=True, slots=True)
class TextBlock(Block):
    """A text under a title. `folded` hides it until it is opened, if it is long or less important."""

    name = "text"
    title: str
    text: str
    folded: bool = False
    verbatim: bool = False
    """Whether it is shown unchanged, in a monospaced font."""


@dataclass(frozen=True, slots=True)
class FactsBlock(Block):
    """Names with values, one per line."""

    name = "facts"
    title: str
    facts: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class TranscriptMessage:
    """One message of a conversation. `tokens` (prompt and completion) and `seconds` are its model call's."""

    role: str
    text: str
    reasoning: str = ""
    tokens: tuple[int, int] | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class ConversationBlock(Block):
    """Messages in order. `decides` are texts to mark in replies, such as the times of the deciding readings. `injected`
    are references of resources that have an instruction for the agent.
    """

    name = "conversation"
    messages: Sequence[TranscriptMessage]
    decides: Sequence[str] = ()
    title: str = "Transcript"
    injected: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Reading:
    """One measurement. `time` is in milliseconds since 1970, `label` is the stored time. `seen` tells whether the agent
    had read it; None if that is unknown.
    """

    time: float
    label: str
    value: float
    decides: bool = False
    seen: bool | None = None


@dataclass(frozen=True, slots=True)
class ChartBlock(Block):
    """The deciding test over time: the window that counts, the thresholds, the agent's answer."""

    name = "chart"
    title: str
    unit: str
    readings: Sequence[Reading]
    now: float
    start: float | None = None
    window: str = ""
    thresholds: Sequence[tuple[float, str]] = ()
    mean: float | None = None
    answered: float | None = None
    denied: bool = False
    """Whether the answer says that a reading is missing."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class AnswerBlock(Block):
    """The agent's answer and the accepted answers. If `accepted` is empty, the answer is not graded. `passed` is None
    without a verdict.
    """

    name = "answer"
    given: str | None
    accepted: Sequence[str]
    passed: bool | None


@dataclass(frozen=True, slots=True)
class Field:
    """A field of an order: its path, the required value, the sent value, and whether that passes."""

    path: str
    required: str
    placed: str
    passed: bool


@dataclass(frozen=True, slots=True)
class Order:
    """A due order and the placed one. A placed order that was not due comes without `fields`.

    `others` are fields of the placed order that no rule checks.
    """

    title: str
    fields: Sequence[Field]
    placed: Any = None
    is_placed: bool = False
    is_due: bool = True
    others: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True)
class OrdersBlock(Block):
    """Required and placed orders, side by side."""

    name = "orders"
    orders: Sequence[Order]


@dataclass(frozen=True, slots=True)
class ChecksBlock(Block):
    """All checks: name, whether it passed, expected and actual value."""

    name = "checks"
    checks: Sequence[tuple[str, bool, str, str]]


@dataclass(frozen=True, slots=True)
class RecordBlock(Block):
    """The agent's writes: each POST's URL, with the resource that was or would be stored, or why it was not stored."""

    name = "record"
    title: str
    writes: Sequence[tuple[str, Any, str]]


@dataclass(frozen=True, slots=True)
class VerdictsBlock(Block):
    """The verdict of each rule set: name, right, reason."""

    name = "verdicts"
    verdicts: Sequence[tuple[str, bool | None, str]]


SetRow: TypeAlias = tuple[Literal["found", "missed", "extra"], Sequence[str]]
"""A row of a comparison of two sets, with its cells."""


@dataclass(frozen=True, slots=True)
class SetsBlock(Block):
    """A comparison of two sets, one row per element: `found`, `missed` or `extra`, and its cells for `columns`."""

    name = "sets"
    title: str
    columns: Sequence[str]
    rows: Sequence[SetRow]
    note: str = ""


@dataclass(frozen=True, slots=True)
class PairBlock(Block):
    """Two texts side by side, each with its title. Words in only one of them are marked."""

    name = "pair"
    left: tuple[str, str]
    right: tuple[str, str]


@dataclass(frozen=True, slots=True)
class VotesBlock(Block):
    """The judges' labels: judge, whether it is a vote for the answer (None: neither for nor against), label, text."""

    name = "votes"
    votes: Sequence[tuple[str, bool | None, str, str]]


Dot: TypeAlias = tuple[str, int, float | None, float | None, float | None]
"""A value in a chart: name, n, value, and the ends of its interval."""


@dataclass(frozen=True, slots=True)
class DotsBlock(Block):
    """Values with intervals, one dot per line. `marks` are reference lines.

    If `group` is set, the names are groups of items, and a click filters by them.
    """

    name = "dots"
    title: str
    lines: Sequence[Dot]
    marks: Sequence[tuple[str, float]] = ()
    group: bool = False
    figure: str = "rate"


@dataclass(frozen=True, slots=True)
class SharesBlock(Block):
    """Stacked bars, one per group, with a count for each of `parts`."""

    name = "shares"
    title: str
    parts: Sequence[str]
    lines: Sequence[tuple[str, Sequence[int]]]


@dataclass(frozen=True, slots=True)
class ReliabilityBlock(Block):
    """Stated confidence and share of right items, per bin: low, high, n, mean confidence, share of right items."""

    name = "reliability"
    title: str
    bins: Sequence[tuple[float, float, int, float, float]]
    note: str = ""


@dataclass(frozen=True, slots=True)
class ScatterBlock(Block):
    """One point per item: item, x, y."""

    name = "scatter"
    title: str
    x: str
    y: str
    points: Sequence[tuple[str, float, float]]
    note: str = ""


def ending_blocks(row: Row) -> list[Block]:
    """The error and traceback of a row."""
    blocks: list[Block] = [TextBlock(f"Ended: {row.status}", row.error)] if row.error else []
    if row.traceback:
        blocks.append(TextBlock("Traceback", row.traceback.rstrip(), folded=True, verbatim=True))
    return blocks
