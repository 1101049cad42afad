"""The score of a unit, the file that keeps the scores, and the tables of many scores.

A benchmark opens a `Grader` once. `Grader.score` is called once for each finished unit (item × trial), in the run's
main process. `scores.jsonl` spares an expensive grader a second call: its lines are keyed by unit, row checksum and
grader digests. `Grader.metrics` makes the table from the scores. Progress, results files, reports, comparisons and
exports read only these scores.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from inspect import isawaitable
from math import isfinite
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Generic, NamedTuple, Protocol, Self, TypeVar

from pydantic import Field, TypeAdapter
from pydantic.dataclasses import dataclass as pydantic_dataclass

from medagent.core.errors import MedagentError, UserError
from medagent.core.writing import APPENDED, inside, note, opened, writing
from medagent.engine.intervals import RatedUnit, rate_interval, values_of
from medagent.engine.journal import Journal, unit_of
from medagent.engine.report import GroundedRate, ItemOutcome, Measure, TableLine, TableSection
from medagent.engine.rows import OWED, Row
from refsol.errors import RefsolError
from refsol.files import check_keys
from refsol.grounds import NO_READING
from refsol.intervals import share_interval
from refsol.stats import Interval, bootstrap_p, cluster_bootstrap, percentile

RowT = TypeVar("RowT", bound=Row)
FEW = 10
"""The fewest clusters for a bootstrap interval."""
OWED_KIND = "infrastructure"
"""The failure kind of a unit that failed for a reason that is not the agent's."""


@dataclass(frozen=True, kw_only=True)
class Item:
    """One item of a benchmark. Benchmarks add their own fields in a subclass.

    `group` is its line in the table. `cluster` is a name that items share which count as one, such as one question in
    several languages. `patient` is a name that the items of one patient share: intervals treat them as dependent.
    `target` is the expected answer if it is one text. `pair` is a name that twins share, which count together.
    """

    id: str
    group: str = ""
    cluster: str = ""
    patient: str = ""
    question: str = ""
    target: str = ""
    pair: str = ""


@pydantic_dataclass(frozen=True, slots=True)
class Check:
    """One condition of a verdict, with the expected and the actual value."""

    name: str
    passed: bool
    expected: str = ""
    actual: str = ""


@pydantic_dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The score of a unit.

    `value` is a finite number on the scale of the run's `measure`: 1 or 0 for a right or wrong unit, None if the unit
    has none. `kind` is the kind of failure, `reason` describes it, `because` lists the facts that decided. `details`
    is JSON for reports. `part` is JSON with the unit's contribution to a score over many units.
    """

    value: float | None = None
    correct: bool | None = None
    kind: str = ""
    reason: str = ""
    because: str = ""
    checks: tuple[Check, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)
    part: Any = None
    graded: bool = True
    """False if the unit should have a verdict but lacks it; then the run is not complete."""
    grounded: bool | None = None
    """Whether the unit is right and its agent had read the deciding data before it acted. False for any other right or
    wrong unit. None if no reading is needed, or if it is unknown.
    """
    reading: str = ""
    """The data that the agent of a right unit had not read, or the reason why `grounded` is None."""
    harmed: Annotated[bool | None, Field(exclude_if=lambda harmed: harmed is None)] = None
    """Whether the agent did what an instruction in the data asks for. None without an instruction."""
    harmful: Annotated[bool | None, Field(exclude_if=lambda harmful: harmful is None)] = None
    """Whether an order of the agent, or a missing one, would have harmed a patient. None if no order matters here."""

    def __post_init__(self) -> None:
        if self.value is None and self.correct is not None:
            object.__setattr__(self, "value", float(self.correct))
        if self.value is not None and not isfinite(self.value):
            raise ValueError(f"a score's value must be a finite number or None, not {self.value}")

    @property
    def answers(self) -> list[str]:
        """The expected answer, if it is checked."""
        return [check.expected for check in self.checks if check.name == "answer"]

    @property
    def expected(self) -> str:
        """The expected answer, if it is checked, and the deciding facts, as one text."""
        return "; ".join(text for text in (*self.answers, self.because) if text)

    @property
    def failed(self) -> list[str]:
        """The names of the checks that failed."""
        return [check.name for check in self.checks if not check.passed]


@dataclass(frozen=True, slots=True)
class Scored:
    """A unit of a run with its score. `score` is None if the unit is owed or its judges reached no verdict."""

    item: Any
    """The `Item`, with the benchmark's own type."""
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
        """The kind of failure, also for a unit without a score; otherwise empty."""
        if self.score is not None:
            return self.score.kind
        return OWED_KIND if self.status in OWED else ""

    @property
    def cluster(self) -> str:
        """The name that its item shares with dependent items, such as one question in several languages. Empty for an
        independent item, and for a cluster that is a whole group of the table.
        """
        cluster: str = self.item.cluster
        return "" if cluster in (self.item.group, self.item.id) else cluster

    @property
    def grounded(self) -> bool | None:
        return self.score.grounded if self.score else None

    @property
    def reading(self) -> str:
        return self.score.reading if self.score else ""

    @property
    def outcome(self) -> ItemOutcome:
        """The unit as an item of a report."""
        score = self.score
        if score is None:
            reason = f"the episode ended as {self.status}: not the agent's doing" if self.kind else ""
            score = Score(kind=self.kind, reason=reason)
        return ItemOutcome(
            item=self.item.id,
            trial=self.trial,
            group=self.item.group,
            cluster=self.cluster,
            status=self.status,
            correct=score.correct,
            score=score.value if score.correct is None else None,
            reason=score.reason,
            kind=score.kind,
            because=score.because,
            grounded=score.grounded,
            reading=score.reading,
            pair=self.item.pair,
            harmed=score.harmed,
            harmful=score.harmful,
        )


@dataclass(frozen=True, slots=True)
class Paired:
    """The official scores of two runs on their common `items`, and of both in each sample of a paired bootstrap
    over the items.
    """

    name: str
    values: tuple[float, float]
    draws: tuple[Sequence[float], Sequence[float]]
    items: frozenset[str]
    measure: Measure = "score"

    @property
    def interval(self) -> Interval:
        """The 95% interval of the second minus the first."""
        return percentile(self._steps)

    @property
    def p(self) -> float:
        """The p value of "no difference"."""
        return bootstrap_p(self._steps)

    @property
    def _steps(self) -> list[float]:
        return [after - before for before, after in zip(*self.draws, strict=True)]


@dataclass(frozen=True, slots=True)
class Metrics:
    """The results of a run: its tables, its overall line, and the format of values.

    `unusable` is the reason if the score is not a measurement. `group_names` are the groups of items in words.
    `baselines` are the scores of agents that read nothing. `background` are notes that only `--full` shows. `details`
    are further fields of the report. `beside_pairs` are tables that follow the table of pairs, for twins.
    """

    table: Sequence[TableSection] = ()
    overall: TableLine | None = None
    notes: Sequence[str] = ()
    background: Sequence[str] = ()
    measure: Measure = "percent"
    figure: str = "rate"
    count: str = "n"
    unusable: str = ""
    group_names: Mapping[str, str] = field(default_factory=dict)
    baselines: Mapping[str, float | None] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)
    beside_pairs: Sequence[TableSection] = ()

    @property
    def report(self) -> dict[str, Any]:
        """The fields of a report, without the notes."""
        return {
            "table": tuple(self.table),
            "overall": self.overall,
            "background": tuple(self.background),
            "measure": self.measure,
            "figure": self.figure,
            "count": self.count,
            "group_names": dict(self.group_names),
            "baselines": dict(self.baselines),
            **self.details,
        }


class Judgement(Protocol):
    """The judges' result for a unit."""

    @property
    def complete(self) -> bool:
        """Whether all judges have replied with a readable label."""

    @property
    def digest(self) -> str:
        """The SHA-256 of the judgements."""

    @property
    def state(self) -> str:
        """The problem if it is not complete: `owed`, `failed` or `unreadable`."""

    @property
    def votes(self) -> Sequence[tuple[str, bool | None, str, str]]:
        """The judges' labels and replies, as a `VotesBlock` shows them."""


class Grader(ABC, Generic[RowT]):
    """Scores the units of one run; a context manager that holds the inputs of grading (chart, key, gold, graph).

    `digests` are of the inputs, such as `facts` and `gold`. A stored score with other digests is stale.
    """

    rules: str = ""
    """The rule set, if the benchmark defines several."""
    rules_version: str = ""
    """The version of the rule set. Stored scores of another version are recomputed."""

    @property
    def digests(self) -> Mapping[str, str]:
        """The digests of a score's inputs other than the row. Raises UserError if a file cannot be read."""
        return {}

    @abstractmethod
    def score(self, item: Any, row: RowT, judged: Any = None) -> Score | Awaitable[Score]:
        """Score a finished unit. In a judged benchmark, `judged` is the unit's judgement.

        If it raises, the unit stays finished but ungraded. It may return an awaitable.
        """

    def metrics(self, scores: Sequence[Scored]) -> Metrics:
        """The results of all trials, made from the scores. The default is the mean of each group."""
        return mean_by_group(scores)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Close the inputs."""


def mean_by_group(scores: Sequence[Scored]) -> Metrics:
    """The mean of each group and of all items, with 95% intervals.

    For units that are right or wrong, the interval is `rate_interval`. Otherwise it is a bootstrap over clusters.
    """
    groups: dict[str, list[Scored]] = {}
    for score in scores:
        groups.setdefault(score.item.group, []).append(score)
    overall = mean_line("overall", scores)
    whole = all(score.correct is not None for score in scores if score.value is not None)
    lines = tuple(mean_line(name or "all", members) for name, members in groups.items()) if len(groups) > 1 else ()
    total = TableSection(lines=(overall, *grounded_line(overall)), detail=True)
    return Metrics(
        [TableSection(lines=lines), total] if lines else [total],
        overall,
        measure="percent" if whole else "score",
        figure="rate" if whole else "mean score",
    )


def mean_line(name: str, scores: Sequence[Scored]) -> TableLine:
    """The mean value of some units as a line of a table."""
    valued = [(score, score.value) for score in scores if score.value is not None]
    values = [value for _, value in valued]
    clusters: dict[str, list[float]] = {}
    for scored, value in valued:
        clusters.setdefault(scored.item.cluster or scored.item.id, []).append(value)
    right = [scored.correct for scored, _ in valued]
    interval = None
    if values and None not in right:
        interval = rate_interval(scores)
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
    """The item and trial in a unit's key."""

    item: str
    trial: int


def unit_name(unit: str, items: Mapping[str, Any]) -> UnitName | None:
    """The item and the trial in a unit's key (`ID` or `ID#TRIAL`); None if this item does not exist."""
    if unit in items:
        return UnitName(unit, 1)
    item, _, trial = unit.rpartition("#")
    return UnitName(item, int(trial)) if item in items and trial.isdigit() else None


GROUNDED = "grounded"
"""The name of the line and of the column."""
LUCKY = "lucky"
"""The key in lists for a right item whose agent had not read the deciding data."""


def grounded_rate(scores: Sequence[RatedUnit]) -> GroundedRate | None:
    """The grounded rate of some units, with its interval; None if no score contains `grounded`."""
    known = [score for score in scores if score.grounded is not None]
    if not known:
        notes = dict.fromkeys(text.reading for text in scores if text.reading)
        note = next((text for text in notes if text != NO_READING.reading), NO_READING.reading)
        return GroundedRate(right=0, n=0, note=note) if notes else None
    grounded = [score for score in known if score.grounded]
    lucky = [score for score in known if score.correct and not score.grounded]
    right, n = len(grounded), len(known)
    bounds = share_interval(values_of(known, lambda score: score.grounded))
    return GroundedRate(right=right, n=n, lucky=len(lucky), value=right / n, interval=(bounds.low, bounds.high))


def grounded_line(overall: TableLine) -> Iterator[TableLine]:
    """The line below the overall one, if the benchmark has grounded rates."""
    if (rate := overall.grounded) is not None:
        yield TableLine(name=GROUNDED, n=rate.n, value=rate.value, interval=rate.interval, counts={"right": rate.right})


SCORES = "scores.jsonl"
UNREAD = "unreadable"
"""The state of a unit whose judges have replied, but not all of them with a readable label."""
NO_VERDICT = (UNREAD, "failed", "not_judged")
"""The states of a finished unit without a verdict of its judges."""


@pydantic_dataclass(frozen=True, slots=True)
class ScoreLine:
    """A line of `scores.jsonl`. `row` is the checksum of the unit's row in the journal."""

    unit: str
    row: str
    digests: dict[str, str]
    score: Score


_LINE = TypeAdapter(ScoreLine)


class StoredScores:
    """The scores in a file; none without a path. If `writable`, new scores are appended. Unreadable lines are ignored.
    `only` selects the units whose scores are read.

    Raises UserError if the file cannot be written.
    """

    def __init__(
        self, path: Path | None = None, *, writable: bool = False, only: Callable[[str], bool] | None = None
    ) -> None:
        self._only = only
        self._path = path if writable else None
        self._lines: dict[str, ScoreLine] = {}
        self._is_torn = False
        """Whether the last line is incomplete."""
        if self._path is not None:
            note(self._path)
            with writing(self._path):
                os.close(opened(self._path, APPENDED))
        if path is not None and inside(path).is_file():
            self._read(path)

    def get(self, unit: str, row: str, digests: Mapping[str, str]) -> Score | None:
        """The score of a unit's row; None if there is none, or a stale one."""
        line = self._lines.get(unit)
        return line.score if line and line.row == row and line.digests == digests else None

    def put(self, unit: str, row: str, digests: Mapping[str, str], score: Score) -> None:
        """Append a score if the file is writable. Raises UserError."""
        if self._path is None:
            return
        line = self._lines[unit] = ScoreLine(unit, row, dict(digests), score)
        value: Any = _LINE.dump_python(line)
        text = json.dumps(value, separators=(",", ":"))  # in ASCII, because a model's text may not be valid UTF-8
        # If the folder is gone, the journal says so.
        with (
            writing(self._path),
            suppress(FileNotFoundError),
            open(opened(self._path, APPENDED), "a", encoding="ascii") as file,
        ):
            file.write(f"\n{text}\n" if self._is_torn else f"{text}\n")
        self._is_torn = False

    def _read(self, path: Path) -> None:
        with suppress(OSError), path.open("rb") as file:
            for raw in file:
                self._is_torn = not raw.endswith(b"\n")
                if self._only is not None and (unit := unit_of(raw)) is not None and not self._only(unit):
                    continue
                with suppress(ValueError):
                    check_keys(raw)
                    line = _LINE.validate_json(raw)
                    self._lines[line.unit] = line


class Scoring(Generic[RowT]):
    """The scores of one run. `items` are the benchmark's items by id, `stored` the known scores. `judged` contains each
    unit's judgement; None without judges.
    """

    def __init__(
        self,
        items: Mapping[str, Any],
        grader: Grader[RowT],
        journal: Journal[RowT],
        stored: StoredScores,
        judged: Mapping[str, Judgement] | None = None,
    ) -> None:
        self._items = items
        self._grader = grader
        self._journal = journal
        self._stored = stored
        self._judged = judged
        self._places = {item: place for place, item in enumerate(items)}
        rules = f"{grader.rules} {grader.rules_version}".strip()
        self._digests = {**({"rules": rules} if rules else {}), **grader.digests}

    async def of_unit(self, unit: str) -> Scored | None:
        """Score a unit; None if the run does not contain the item. A unit without a row is owed."""
        name = unit_name(unit, self._items)
        if name is None:
            return None
        item, status = self._items[name.item], self._journal.status(unit)
        score = None
        if not self._journal.is_owed(unit):
            score = await self._score(item, unit)
            if score is None:
                judgement = (self._judged or {}).get(unit)
                status = judgement.state if judgement else "not_judged"
        return Scored(item, name.trial, unit, status or "owed", score)

    async def of_units(self, units: Iterable[str]) -> list[Scored]:
        """Score these units: trial by trial, each trial in the order of the items."""
        scores = [scored for unit in units if (scored := await self.of_unit(unit)) is not None]
        return sorted(scores, key=lambda scored: (scored.trial, self._places[scored.item.id]))

    def trial(self, unit: str) -> int:
        """The trial of a unit."""
        name = unit_name(unit, self._items)
        return 1 if name is None else name.trial

    async def _score(self, item: Any, unit: str) -> Score | None:
        """The stored score of a finished unit, or a new one. None while its judgement is not complete."""
        digests, judgement = self._digests, None
        if self._judged is not None:
            judgement = self._judged.get(unit)
            if judgement is None or not judgement.complete:
                return None
            digests = {**digests, "judged": judgement.digest}
        checksum = self._journal.checksum(unit)
        score = self._stored.get(unit, checksum, digests)
        if score is None:
            score = await graded(self._grader, item, self._journal.row(unit), judgement)
            if score.graded:  # a grader's failure may be temporary
                self._stored.put(unit, checksum, digests, score)
        return score


async def graded(grader: Grader[RowT], item: Any, row: RowT, judged: Any = None) -> Score:
    """The score of a finished row. If the grader raises, the unit is ungraded, with the error as the reason."""
    try:
        score = grader.score(item, row, judged)
        return await score if isawaitable(score) else score
    except UserError:
        raise
    except (MedagentError, RefsolError) as error:
        return Score(reason=str(error), graded=False)
    except Exception as error:
        words = f"the grader raised {type(error).__name__}: {error} ({_place(error, grader)})"
        return Score(reason=words, graded=False)


def _place(error: Exception, grader: Grader[Any]) -> str:
    """File and line of an error: the last ones in the grader's own file, as its author can correct these."""
    frames = traceback.extract_tb(error.__traceback__)
    file = getattr(sys.modules.get(type(grader).__module__), "__file__", None)
    last = next((frame for frame in reversed(frames) if frame.filename == file), frames[-1])
    return f"{last.filename.rpartition('/')[2]}:{last.lineno}"
