"""What one unit of a run is worth, and the figures that many such scores make.

A benchmark opens a `Grader` once. `Grader.score` is called once for each finished unit (item × trial), in the process
that drives the run; `Grader.figures` makes the table from scores alone. Progress, results files, reports, comparisons,
exports and other tools read these scores and nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from statistics import fmean
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

from pydantic.dataclasses import dataclass as pydantic_dataclass

from medagent.core.wire import Text
from medagent.engine.grounded import grounded_line, grounded_rate
from medagent.engine.intervals import interval_notes, these_types
from medagent.engine.report import ItemOutcome, Measure, TableLine, TableSection
from medagent.engine.rows import OWED, Row
from refsol.stats import Interval, cluster_bootstrap, wilson

RowT = TypeVar("RowT", bound=Row)
RowT_contra = TypeVar("RowT_contra", bound=Row, contravariant=True)
FEW = 10
"""Below this number of clusters a bootstrap interval says nothing."""
OWED_KIND = "infrastructure"
"""The kind of a unit that failed for a reason that is not the agent's."""


@dataclass(frozen=True, kw_only=True)
class Item:
    """What a benchmark asks. Benchmarks add their own fields in a subclass.

    `group` is the line of the table that it counts in, `cluster` names items that are not independent of each other
    (empty: the item alone), `target` is the expected answer where one text says it.
    """

    id: str
    group: str = ""
    cluster: str = ""
    question: str = ""
    target: str = ""


@pydantic_dataclass(frozen=True, slots=True)
class Check:
    """One thing that was checked: what was expected, and what was there instead."""

    name: str
    passed: bool
    expected: Text = ""
    actual: Text = ""


@pydantic_dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """What a unit is worth.

    `value` is a finite number on the scale of the run's `measure`, or None if the unit has no figure; of a unit that is
    right or wrong it is 1 or 0. `kind` says why it is wrong, `reason` in words, `because` the facts that decide.
    `details` is JSON for reports. `part` is JSON that states what the unit contributes to a figure over many units.
    """

    value: float | None = None
    correct: bool | None = None
    kind: str = ""
    reason: Text = ""
    because: Text = ""
    checks: tuple[Check, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)
    part: Any = None
    graded: bool = True
    """False if the unit should have a verdict and has none: the run is not complete."""
    grounded: bool | None = None
    """Whether it is right and the agent had read what decides before it acted; False for any other right or wrong unit;
    None if nothing has to be read, or it cannot be told."""
    reading: Text = ""
    """What the agent of a right unit had not read, or why `grounded` is None."""

    def __post_init__(self) -> None:
        if self.value is None and self.correct is not None:
            object.__setattr__(self, "value", float(self.correct))
        if self.value is not None and not isfinite(self.value):
            raise ValueError(f"a score's value is a finite number or None, not {self.value}")

    @property
    def expected(self) -> str:
        """What was expected, in one text: the answer, if one is checked, and the facts that decide."""
        answers = [check.expected for check in self.checks if check.name == "answer"]
        return "; ".join(text for text in (*answers, self.because) if text)

    @property
    def failed(self) -> list[str]:
        """The names of the checks that failed."""
        return [check.name for check in self.checks if not check.passed]


@dataclass(frozen=True, slots=True)
class Scored:
    """A unit of a run with its score; `score` is None while the unit is owed, or its judges left no verdict."""

    item: Any
    """The `Item`, of the benchmark's own type."""
    trial: int
    unit: str
    status: str
    score: Score | None = None

    @property
    def correct(self) -> bool | None:
        """Whether it is right; None if it is neither right nor wrong."""
        return self.score.correct if self.score else None

    @property
    def value(self) -> float | None:
        """Its value."""
        return self.score.value if self.score else None

    @property
    def kind(self) -> str:
        """Why it is wrong or has no score; empty otherwise."""
        if self.score is not None:
            return self.score.kind
        return OWED_KIND if self.status in OWED else ""

    @property
    def cluster(self) -> str:
        """What its item has in common with a few others, such as the question in several languages; empty for an item
        by itself, or for a cluster that is a whole group of the table.
        """
        cluster: str = self.item.cluster
        return "" if cluster in (self.item.group, self.item.id) else cluster

    @property
    def grounded(self) -> bool | None:
        """See `Score.grounded`."""
        return self.score.grounded if self.score else None

    @property
    def reading(self) -> str:
        """See `Score.reading`."""
        return self.score.reading if self.score else ""

    @property
    def outcome(self) -> ItemOutcome:
        """It as an item of a report."""
        score, cluster = self.score, self.cluster
        if score is None:
            reason = f"the episode ended as {self.status}: not the agent's doing" if self.kind else ""
            return ItemOutcome(
                item=self.item.id,
                trial=self.trial,
                group=self.item.group,
                cluster=cluster,
                status=self.status,
                kind=self.kind,
                reason=reason,
            )
        return ItemOutcome(
            item=self.item.id,
            trial=self.trial,
            group=self.item.group,
            cluster=cluster,
            status=self.status,
            correct=score.correct,
            score=score.value if score.correct is None else None,
            reason=score.reason,
            kind=score.kind,
            because=score.because,
            grounded=score.grounded,
            reading=score.reading,
        )


@dataclass(frozen=True, slots=True)
class Paired:
    """The official score of two runs over the `items` that both have, and the 95 % interval of the second less the
    first, from draws of the same items in both.
    """

    name: str
    values: tuple[float, float]
    interval: Interval
    items: frozenset[str]
    measure: Measure = "score"


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a run: its tables, the line that counts, and how values are written.

    `unusable` says why the answers are no measure, `details` holds further fields of the report.
    """

    table: Sequence[TableSection] = ()
    overall: TableLine | None = None
    notes: Sequence[str] = ()
    measure: Measure = "percent"
    figure: str = "rate"
    count: str = "n"
    unusable: str = ""
    details: dict[str, Any] = field(default_factory=dict)


class Judgement(Protocol):
    """What judges said of a unit."""

    @property
    def complete(self) -> bool:
        """Whether no judge is owed or unreadable."""
        ...

    @property
    def digest(self) -> str:
        """The SHA-256 of the judgements."""
        ...

    @property
    def state(self) -> str:
        """What is missing, if it is not complete: `owed`, `failed` or `unreadable`."""
        ...


class Grader(ABC, Generic[RowT]):
    """Scores the units of one run; a context manager that holds what grading looks up (chart, key, gold, graph).

    `digests` name what scores depend on, such as `facts` and `gold`: a stored score with other digests is stale.
    """

    rules: str = ""
    """The rule set, where the benchmark has several."""

    @property
    def by_content(self) -> bool:
        """Whether a score depends only on the item, the judgement, and the row without its unit, trial, times, calls
        and `made_up` values. If so, `score` may be called once for rows that are otherwise equal.
        """
        return False

    @property
    def digests(self) -> Mapping[str, str]:
        """Digests of what scores depend on beside the row. Raises UserError if a file cannot be read."""
        return {}

    @abstractmethod
    def score(self, item: Any, row: RowT, judged: Any = None) -> Score | Awaitable[Score]:
        """Score a finished unit; `judged` is the unit's judgement, in a judged benchmark.

        What it raises leaves this unit ungraded; the row stays finished. Scoring that waits returns an awaitable.
        """

    def figures(self, scores: Sequence[Scored]) -> Figures:
        """The figures of all trials, from scores alone. The default is the mean of each group."""
        return mean_by_group(scores)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Close what was opened."""


def mean_by_group(scores: Sequence[Scored], title: str = "") -> Figures:
    """The mean of each group and of all, with 95 % intervals; trials of an item and items of a cluster go together.

    Of single trials that are right or wrong the interval is Wilson's, else a bootstrap over clusters. If the groups are
    types of independent items, the interval of all is that of these types, and the notes have that of other types.
    """
    groups: dict[str, list[Scored]] = {}
    for one in scores:
        groups.setdefault(one.item.group, []).append(one)
    overall = mean_line("overall", scores)
    whole = all(one.correct is not None for one in scores if one.value is not None)
    notes: list[str] = []
    if whole and overall.n and len(groups) > 1 and all(_is_of_type(one.item) for one in scores):
        bounds = these_types(scores)
        overall = overall.model_copy(update={"interval": (bounds.low, bounds.high)})
        notes += interval_notes(scores)
    lines = tuple(mean_line(name or "all", members) for name, members in groups.items()) if len(groups) > 1 else ()
    sections = [TableSection(lines=part) for part in (lines, (overall, *grounded_line(overall))) if part]
    sections[0] = sections[0].model_copy(update={"title": title})
    return Figures(
        sections, overall, notes, measure="percent" if whole else "score", figure="rate" if whole else "mean score"
    )


def _is_of_type(item: Item) -> bool:
    """Whether an item depends on no other one, except by its group."""
    return item.cluster in ("", item.id, item.group)


def mean_line(name: str, scores: Sequence[Scored]) -> TableLine:
    """The mean value of some units as a line of a table."""
    valued = [(one, one.value) for one in scores if one.value is not None]
    values = [value for _, value in valued]
    clusters: dict[str, list[float]] = {}
    for one, value in valued:
        clusters.setdefault(one.item.cluster or one.item.id, []).append(value)
    right = [one.correct for one, _ in valued]
    interval = None
    if values and None not in right and len(clusters) == len(values):
        interval = wilson(right.count(True), len(right))
    elif len(clusters) >= FEW:
        interval = cluster_bootstrap(list(clusters.values()))
    return TableLine(
        name=name,
        grounded=grounded_rate(scores),
        n=len(values),
        value=fmean(values) if values else None,
        interval=None if interval is None else (interval.low, interval.high),
        counts={"right": right.count(True)} if values and None not in right else {},
    )


class UnitName(NamedTuple):
    """A unit's item and trial."""

    item: str
    trial: int


def unit_name(unit: str, items: Mapping[str, Any]) -> UnitName | None:
    """The item and the trial that a unit's key means (`ID`, or `ID#TRIAL`); None if there is no such item."""
    if unit in items:
        return UnitName(unit, 1)
    item, _, trial = unit.rpartition("#")
    return UnitName(item, int(trial)) if item in items and trial.isdigit() else None
