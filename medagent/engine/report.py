"""A `Report` contains the results of a run, in one format for all benchmarks. Tables, JSON and comparisons are views of
it.

It is written as `report.json`, its items as `items.jsonl`, one per line. Both are outputs for other programs; a report
is computed from the journals and the scores. Benchmarks may add fields, such as MedAgentBench's grades.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from pydantic.dataclasses import dataclass as pydantic_dataclass

from medagent.core.errors import UserError
from medagent.core.options import Setting
from medagent.core.writing import inside, write_changed
from medagent.engine.accounts import Account
from medagent.engine.blocks import Dot
from medagent.engine.notebook import NotebookViews
from medagent.engine.rows import FailedUnit, Spent, merged
from medagent.models.base import RecordedCall
from refsol.files import DuplicateKeyError, check_keys, unique
from refsol.json_values import unicode_json

REPORT, ITEMS = "report.json", "items.jsonl"
MISSING = "missing"
"""The detail of a results file with how many of its data's items it lacks."""
STORED = "stored"
"""The detail of a report that could not be made again: why not."""
Measure = Literal["percent", "points", "score"]
"""The format of values: 0.917 is `91.7 %`, `91.70` or `0.9170`."""


GIVES_AWAY = "gives-away"
"""The setting in `run.json` with what the prompt gives away."""
PUBLISHED_FIGURES = "Published figures"
"""The title of the section with published scores for the same items."""


class DataRef(BaseModel):
    """The data that a score was measured on. `digest` is its SHA-256, `note` a remark for readers of the score."""

    model_config = ConfigDict(frozen=True)

    name: str
    version: str = ""
    digest: str = ""
    note: str = ""
    left_out: tuple[str, ...] = ()
    """The ids of items that a run omits because its patients lack the necessary data."""
    accounts: dict[str, Account] = {}
    """By group from which patients its items were sampled; empty if that is not known."""


class GroundedRate(BaseModel):
    """The number of right items whose agent had read the deciding data (`right`), of the graded items that need a
    reading (`n`).

    `lucky` is the number of right items whose agent had not read it. `note` is the reason if the rate is missing.
    """

    model_config = ConfigDict(frozen=True)

    right: int
    n: int
    lucky: int = 0
    value: float | None = None
    interval: tuple[float, float] | None = None
    note: str = ""


class TableLine(BaseModel):
    """A line of the table: a group of items. `value` is the score (None without items), `interval` its 95%
    interval, `counts` are named whole numbers, `more` are further numbers. `grounded` is the grounded rate (None if the
    benchmark has none).
    """

    model_config = ConfigDict(frozen=True)

    name: str
    n: int
    value: float | None = None
    interval: tuple[float, float] | None = None
    counts: dict[str, int] = {}
    more: dict[str, int | float | None] = {}
    grounded: GroundedRate | None = None

    def dot(self, name: str) -> Dot:
        """The line under a name in a chart."""
        low, high = self.interval or (None, None)
        return name, self.n, self.value, low, high


class TableSection(BaseModel):
    """Consecutive lines of a table. A title starts a new table, whose columns of names, scores and numbers of items
    may have other headings.
    """

    model_config = ConfigDict(frozen=True)

    lines: tuple[TableLine, ...]
    title: str = ""
    name: str = ""
    figure: str = ""
    count: str = ""
    detail: bool = False
    """Whether only `--full` shows these lines."""


@pydantic_dataclass(frozen=True, slots=True, kw_only=True)
class ItemOutcome:
    """The outcome of one item in one trial: `correct` if it is right or wrong, `score` if it is a number (0 to 1); both
    are None if it was not graded.
    """

    item: str
    trial: int = 1
    group: str = ""
    cluster: str = ""
    """The name that items share which count as one, such as one question in several languages."""
    patient: Annotated[str, Field(exclude_if=lambda patient: not patient)] = ""
    """The number of its patient among the patients of the run, from 1: it says which items share one, not who it is."""
    status: str = "completed"
    correct: bool | None = None
    score: float | None = None
    reason: str = ""
    kind: str = ""
    """The kind of failure, one of the benchmark's kinds; empty if the item is right or the benchmark defines none."""
    because: str = ""
    """The facts that decided."""
    finish_reasons: tuple[str, ...] = ()
    """The finish reasons of replies that the model did not end itself, such as `length`, each once."""
    grounded: bool | None = None
    """Whether it is right and its agent had read the deciding data; None if no reading is needed, or it is unknown."""
    reading: str = ""
    """The data that the agent of a right item had not read, or the reason why `grounded` is None."""
    pair: Annotated[str, Field(exclude_if=lambda name: not name)] = ""
    """The name that the twins of a pair or a triple share."""
    harmed: Annotated[bool | None, Field(exclude_if=lambda harmed: harmed is None)] = None
    """Whether the agent did what an instruction in the data asks for. None without an instruction."""
    harmful: Annotated[bool | None, Field(exclude_if=lambda harmful: harmful is None)] = None
    """Whether an order of the agent, or a missing one, would have harmed a patient. None if no order matters here."""

    @property
    def is_lucky(self) -> bool:
        """Whether it is right although its agent had not read the deciding data."""
        return self.correct is True and self.grounded is False

    @property
    def value(self) -> float | None:
        """The score; 1 or 0 if the item is right or wrong."""
        return self.score if self.correct is None else float(self.correct)


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """A kind of failure with its items. The first is typical: of the task type in which it is most frequent."""

    kind: str
    items: Sequence[ItemOutcome]


def _fault(kind: str, items: Sequence[ItemOutcome]) -> FailureGroup:
    ((group, _),) = Counter(item.group for item in items).most_common(1)
    typical = next(item for item in items if item.group == group)
    return FailureGroup(kind, [typical, *(item for item in items if item is not typical)])


class Report(NotebookViews, BaseModel):
    """The results of a run. `figure` and `count` are the headings of the value and of the number of items in tables."""

    model_config = ConfigDict(frozen=True, extra="allow")

    benchmark: str
    folder: str
    data: DataRef = DataRef(name="")
    settings: dict[str, Setting] = {}
    versions: dict[str, str] = {}
    """The versions of medagent, its commit, Python and packages."""
    rule_set: str = ""
    """The rule set of the score, if the benchmark defines several."""
    rules_version: str = ""
    """The version of the rules. Scores of different versions do not compare."""
    digests: dict[str, str] = {}
    """The digests of further inputs of the scores: facts, gold."""
    started: str = ""
    ended: str = ""
    """The start of the first unit and the end of the last one."""
    group_names: dict[str, str] = {}
    """The groups of items (task types) in words: `task5` is `replace magnesium`."""
    measure: Measure = "percent"
    figure: str = "rate"
    count: str = "n"
    table: tuple[TableSection, ...] = ()
    overall: TableLine | None = None
    items: tuple[ItemOutcome, ...] = ()
    patients: int = 0
    """The number of patients that the items belong to; 0 if they have none."""
    baselines: dict[str, float | None] = {}
    """The scores of agents that read nothing, on the same items."""
    notes: tuple[str, ...] = ()
    background: tuple[str, ...] = ()
    """The notes that only `--full` shows."""
    spent: Spent = Spent()
    spending: dict[str, Spent] = {}
    """The same by role and model: `model gpt-4o`, `judge j`."""
    unpriced: int = 0
    """The number of calls with unknown cost."""
    finish_reasons: dict[str, int] = {}
    """The number of replies in the units' last rows that the model did not end itself, by finish reason."""
    endings: dict[str, int] = {}
    repeated: dict[str, int] = {}
    """The number of attempts that `--retry` repeated, by their status."""
    failed: tuple[FailedUnit, ...] = ()
    """The units that failed instead of ending with an answer."""
    owed: tuple[str, ...] = ()
    """The owed units of the last command's selection."""
    ungraded: int = 0
    """The number of answered items of the last command's selection that could not be graded, without those that
    --allow-unread allows.
    """
    unusable: str = ""
    """Why the score is not a measurement: too many answers are empty, cut off or only thinking."""
    stopped: str | None = None
    """The reason if the last command ended early, or the limit that it exceeded."""
    command: str = ""
    reused: int = 0
    """The number of units that were already finished before the last command; it is not stored."""
    files: tuple[str, ...] = ()
    slowest: float = 0.0
    """The seconds of the slowest unit."""
    learned: tuple[str, ...] = ()
    """The units that the agent learned from, in order."""
    journals: dict[str, str] = {}
    """The fingerprint `SIZE:CRC32` of each journal that the report was made from."""

    @property
    def rules(self) -> str:
        """The rule set and its version: `fair 2`."""
        return f"{self.rule_set} {self.rules_version}".strip()

    @property
    def complete(self) -> bool:
        """Whether all selected items are done and graded, with usable answers."""
        return not (self.owed or self.ungraded or self.stopped or self.unusable)

    @property
    def failure_groups(self) -> list[FailureGroup]:
        """The kinds of failure of graded items, the most frequent first."""
        by_kind: dict[str, list[ItemOutcome]] = {}
        for item in self.items:
            if item.kind and item.value is not None:
                by_kind.setdefault(item.kind, []).append(item)
        faults = [_fault(kind, items) for kind, items in by_kind.items()]
        return sorted(faults, key=lambda fault: -len(fault.items))

    @property
    def model_spent(self) -> Spent:
        """The calls of the models that answered, without judges."""
        of_models = [spent for name, spent in self.spending.items() if name.partition(" ")[0] != "judge"]
        return merged(of_models) if self.spending else self.spent

    def named(self, group: str) -> str:
        """A group, followed by its name in words. See `named`."""
        return named(group, self.group_names)

    def error_of(self, item: ItemOutcome) -> str:
        """The error of an item whose unit failed; empty for any other item."""
        units = {f"{item.item}#{item.trial}", item.item if item.trial == 1 else ""}
        return next((failure.error for failure in self.failed if failure.unit in units), "")

    @property
    def details(self) -> dict[str, Any]:
        """The benchmark's own fields."""
        return self.model_extra or {}


def named(group: str, names: Mapping[str, str]) -> str:
    """A group, followed by its name in words if that says more: `task5  replace magnesium`."""
    words = names.get(group, "")
    width = max(map(len, names), default=0)
    return group if words in ("", group.replace("_", " ")) else f"{group:{width}}  {words}"


_OUTCOME = TypeAdapter(ItemOutcome)
_OF_ONE_CALL = {"command", "reused"}
"""Fields that are not stored: the command contains addresses of endpoints, and `reused` applies to one call only."""


def document(report: Report, without: Iterable[str] = ()) -> str:
    """The report as one JSON object, indented by 1."""
    return json.dumps(report.model_dump(mode="json", exclude={*_OF_ONE_CALL, *without}), indent=1) + "\n"


def write_report(folder: Path, report: Report) -> None:
    """Write `report.json` and `items.jsonl`, unless they already have the report. Raises UserError."""
    # in ASCII, because a model's text may not be valid UTF-8
    lines = [json.dumps(_OUTCOME.dump_python(item), separators=(",", ":")) for item in report.items]
    write_changed(folder / ITEMS, "".join(f"{line}\n" for line in lines))
    write_changed(folder / REPORT, document(report, ["items"]))


def read_report(folder: Path) -> Report | None:
    """The report in `report.json`, without its items; None if there is none. Raises UserError if it is damaged."""
    path = inside(folder / REPORT)
    if not path.exists():
        return None
    try:
        stored = json.loads(path.read_bytes(), object_pairs_hook=unique)
        return Report.model_validate({**stored, "folder": str(folder)})
    except DuplicateKeyError as error:
        raise _damaged(path, str(error)) from None
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        raise _damaged(path) from None


def read_items(folder: Path) -> tuple[ItemOutcome, ...]:
    """The items in `items.jsonl`. Raises UserError if they cannot be read."""
    try:
        with inside(folder / ITEMS).open("rb") as file:
            return tuple(map(_outcome, file))
    except DuplicateKeyError as error:
        raise _damaged(folder / ITEMS, str(error)) from None
    except (OSError, ValueError, RecursionError):
        raise _damaged(folder / ITEMS) from None


def _outcome(line: bytes) -> ItemOutcome:
    text = unicode_json(line.decode())
    check_keys(text)
    return _OUTCOME.validate_json(text)


def _damaged(path: Path, why: str = "") -> UserError:
    return UserError(f"{path}: is damaged{f' ({why})' if why else ''}; repeat the run's command to make it again")


class BackgroundNote(str):
    """A note that only `--full` shows, such as the digest of a prompt."""


REQUESTS = "requests"
"""The role of a message with the requests of a program: their number, then each request with its reply."""


@dataclass(frozen=True, slots=True)
class ShownMessage:
    """One message of a shown item. `role` is its heading, `reasoning` is the separate thinking of the model."""

    role: str
    text: str
    reasoning: str | None = None
    call: RecordedCall | None = None
    """The tool call that the text was made from."""


@dataclass(frozen=True, slots=True)
class ItemView:
    """One item to show: its messages, and lines about its outcome. `decides` are texts in the messages that decided,
    such as the times of readings. `injected` are references of resources with an instruction.
    """

    messages: Sequence[ShownMessage]
    lines: Sequence[str]
    decides: Sequence[str] = ()
    injected: Sequence[str] = ()


def places(items: Iterable[ItemOutcome]) -> tuple[dict[str, str], dict[str, str]]:
    """The type of each item, and the name that dependent items share: of a patient, of a cluster, or its own."""
    known = list(items)
    types = {outcome.item: outcome.group for outcome in known}
    return types, {outcome.item: dependence(outcome) for outcome in known}


def dependence(outcome: ItemOutcome) -> str:
    """The name that an item shares with items that are not independent of it."""
    return f"patient {outcome.patient}" if outcome.patient else outcome.cluster or outcome.item


def by_trial(items: Iterable[ItemOutcome]) -> dict[str, list[bool]]:
    """For each item with graded trials: whether they are right."""
    trials: dict[str, list[bool]] = {}
    for item in items:
        if item.correct is not None:
            trials.setdefault(item.item, []).append(item.correct)
    return trials
