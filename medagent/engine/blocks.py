"""What a page shows, as data: blocks of an item or of a run, each drawn by the function of its name in `blocks.js`.

A benchmark makes blocks of what it knows; the page knows no benchmark. Texts are plain text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias

from medagent.engine.report import ItemOutcome
from medagent.engine.rows import Row, RowHead


@dataclass(frozen=True, slots=True)
class Block:
    """The base of blocks; `name` is the function that draws it."""

    name: ClassVar[str]


@dataclass(frozen=True, slots=True)
class TextBlock(Block):
    """A text under a title; `folded` where it is long or beside the point."""

    name = "text"
    title: str
    text: str
    folded: bool = False
    verbatim: bool = False
    """Whether it is shown as typed, in a monospaced face."""


@dataclass(frozen=True, slots=True)
class FactsBlock(Block):
    """Names with values, a line each."""

    name = "facts"
    title: str
    facts: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation; `tokens` and `seconds` are those of the model call that made it."""

    role: str
    text: str
    reasoning: str = ""
    tokens: tuple[int, int] | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class ConversationBlock(Block):
    """Messages in order. `decides` holds texts that are marked in replies: the times of the readings that decide."""

    name = "conversation"
    messages: Sequence[Message]
    decides: Sequence[str] = ()
    title: str = "Transcript"


@dataclass(frozen=True, slots=True)
class Reading:
    """One measurement: `time` in milliseconds since 1970, as stored in `label`; `seen` None where nothing tells."""

    time: float
    label: str
    value: float
    decides: bool = False
    seen: bool | None = None


@dataclass(frozen=True, slots=True)
class ChartBlock(Block):
    """The deciding test over time: the window that counts, the thresholds, what the agent answered."""

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
    """Whether the answer says that there is no reading."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class AnswerBlock(Block):
    """What was answered beside what counts as right; empty `accepted`: the answer does not count. `passed` is None
    where nobody judged it.
    """

    name = "answer"
    given: str | None
    accepted: Sequence[str]
    passed: bool | None


@dataclass(frozen=True, slots=True)
class Field:
    """A place of an order: what is required, what was sent there, and whether that passes."""

    path: str
    required: str
    placed: str
    passed: bool


@dataclass(frozen=True, slots=True)
class Order:
    """An order that is due, beside the one that was placed; one that was not due has no `fields`.

    `others` are places of the placed order that no rule looks at.
    """

    title: str
    fields: Sequence[Field]
    placed: Any = None
    is_placed: bool = False
    is_due: bool = True
    others: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True)
class OrdersBlock(Block):
    """Orders required and placed, side by side."""

    name = "orders"
    orders: Sequence[Order]


@dataclass(frozen=True, slots=True)
class ChecksBlock(Block):
    """Everything that was checked: name, whether it passed, expected, actual."""

    name = "checks"
    checks: Sequence[tuple[str, bool, str, str]]


@dataclass(frozen=True, slots=True)
class RecordBlock(Block):
    """What the record became, or would have: each POST's URL with the stored resource, or why it was refused."""

    name = "record"
    title: str
    writes: Sequence[tuple[str, Any, str]]


@dataclass(frozen=True, slots=True)
class VerdictsBlock(Block):
    """What each set of rules says: name, right, reason."""

    name = "verdicts"
    verdicts: Sequence[tuple[str, bool | None, str]]


SetRow: TypeAlias = tuple[Literal["found", "missed", "extra"], Sequence[str]]
"""An element of two sets that are compared, with its cells."""


@dataclass(frozen=True, slots=True)
class SetsBlock(Block):
    """Two sets compared, a row an element: `found`, `missed` or `extra`, and its cells under `columns`."""

    name = "sets"
    title: str
    columns: Sequence[str]
    rows: Sequence[SetRow]
    note: str = ""


@dataclass(frozen=True, slots=True)
class PairBlock(Block):
    """Two texts beside each other, each with its title; words that only one has are marked."""

    name = "pair"
    left: tuple[str, str]
    right: tuple[str, str]


@dataclass(frozen=True, slots=True)
class VotesBlock(Block):
    """Judges: name, label, words."""

    name = "votes"
    votes: Sequence[tuple[str, str, str]]


@dataclass(frozen=True, slots=True)
class DotsBlock(Block):
    """Figures with intervals as dots on one line each: name, n, value, low, high. `marks` are lines for reference.

    `group` says that the names are groups of items, which a click filters by.
    """

    name = "dots"
    title: str
    lines: Sequence[tuple[str, int, float | None, float | None, float | None]]
    marks: Sequence[tuple[str, float]] = ()
    group: bool = False
    figure: str = "rate"


@dataclass(frozen=True, slots=True)
class SharesBlock(Block):
    """Stacked bars: a line a group with a count for each of `parts`."""

    name = "shares"
    title: str
    parts: Sequence[str]
    lines: Sequence[tuple[str, Sequence[int]]]


@dataclass(frozen=True, slots=True)
class ReliabilityBlock(Block):
    """Stated confidence against the share of right ones: low, high, n, mean confidence, share of right ones."""

    name = "reliability"
    title: str
    bins: Sequence[tuple[float, float, int, float, float]]
    note: str = ""


@dataclass(frozen=True, slots=True)
class ScatterBlock(Block):
    """Points with the item that each is: item, x, y."""

    name = "scatter"
    title: str
    x: str
    y: str
    points: Sequence[tuple[str, float, float]]
    note: str = ""


@dataclass(frozen=True, slots=True)
class ItemDetail:
    """What a page shows of one item of one trial. `row` says what it cost; `failed` names the checks that failed.

    `blocks` may be a function that makes them. It is not called if an earlier item had the same `digest`, since trials
    often go alike: its blocks are then those of the earlier item with these `values` in place of the earlier ones.
    """

    item: str
    trial: int
    blocks: Sequence[Block] | Callable[[], Sequence[Block]]
    row: RowHead | None = None
    question: str = ""
    failed: Sequence[str] = ()
    kind: str = ""
    """Why it is wrong, in a word or two, where the report names no kind."""
    digest: bytes = b""
    values: Sequence[str] = ()
    """Values that a server made up, each once, in the order in which they appear."""
    outcome: ItemOutcome | None = None
    """How it ended, where that is known apart from the report."""

    @property
    def made(self) -> Sequence[Block]:
        """Its blocks."""
        return self.blocks() if callable(self.blocks) else self.blocks


def no_details() -> Iterable[ItemDetail]:
    """The details of a run that has none."""
    return ()


@dataclass(frozen=True, slots=True)
class Details:
    """What a benchmark adds to a report's figures for a page.

    `items` gives the details anew at each call, one after the other, in any order. `kinds` says each failure kind in
    words.
    """

    items: Callable[[], Iterable[ItemDetail]] = no_details
    panels: Sequence[Block] = ()
    kinds: Mapping[str, str] = field(default_factory=dict)


def ending_blocks(row: Row) -> list[Block]:
    """How a row ended, where that was not with an answer: its error, and its traceback where it has one."""
    blocks: list[Block] = [TextBlock(f"Ended: {row.status}", row.error)] if row.error else []
    if row.traceback:
        blocks.append(TextBlock("Traceback", row.traceback.rstrip(), folded=True, verbatim=True))
    return blocks
