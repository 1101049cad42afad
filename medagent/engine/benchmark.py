"""What a benchmark is: its settings, items, plan, and how a finished unit is scored and shown.

The engine does everything else: concurrency, journal, resume, limits, clusters, progress, scores, tables. The command
line, reports, exports and adapters for other tools work for every benchmark, from what is defined here.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from shutil import copyfile
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel, ConfigDict

from medagent.core.errors import UserError
from medagent.core.named_paths import named_path
from medagent.core.options import checked, options
from medagent.engine.blocks import AnswerBlock, Block, ChecksBlock, ConversationBlock, Message, TextBlock
from medagent.engine.journals import JournalKind, Run
from medagent.engine.learning import LEARNED, LEARNING, LearnedRow
from medagent.engine.plan import JOURNAL, Plan
from medagent.engine.report import DataRef, Report, ShownMessage
from medagent.engine.rows import Row
from medagent.engine.scores import Grader, Item, Judgement, Paired, Score, Scored
from medagent.engine.settings import RunSettings

SettingsT = TypeVar("SettingsT", bound=RunSettings)
RowT = TypeVar("RowT", bound=Row)
Say = Callable[[str], None]
"""Tells a person something."""


class GradeOptions(BaseModel):
    """How a finished run is graded, beside what its folder says: options of `medagent grade`. Benchmarks add theirs."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Benchmark(ABC, Generic[SettingsT, RowT]):
    """The base of benchmarks; an instance is all that a run needs."""

    name: ClassVar[str]
    Settings: type[SettingsT]
    row: type[RowT]
    """The rows of `episodes.jsonl`."""
    Source: ClassVar[type[BaseModel] | None] = None
    """The settings that name a run's data and decide how it is graded, if not all of them do: a part of `Settings`."""
    GradeOptions: ClassVar[type[BaseModel]] = GradeOptions
    """The options of `medagent grade` that the benchmark has."""
    rule_sets: ClassVar[Sequence[str]] = ("",)
    """The names of its rule sets, the one that counts first."""
    judgements: ClassVar[Mapping[str, JournalKind]] = {}
    """The journals of its judges."""
    unit_noun: ClassVar[str] = "items"
    """What its units are called, in the plural."""
    example: ClassVar[str] = ""
    """A command to copy, for `--help`."""
    has_verdicts: ClassVar[bool] = True
    """Whether an item is right or wrong, so that before a run can be said which difference between two is noise."""
    kinds: ClassVar[Mapping[str, str]] = {}
    """Its kinds of failure, each in words."""
    reference: str = ""
    """The import path by which it was loaded, if it was not loaded by name; a run's folder names it."""

    @abstractmethod
    def items(self, source: Any) -> Sequence[Item]:
        """What the benchmark asks, in the order of its data. `source` names the data: the run's settings, or what
        `source` makes of a folder. Raises UserError.
        """

    @abstractmethod
    async def plan(self, settings: SettingsT, say: Say) -> Plan:
        """Work a run out before the first call; `say` is told of work that takes a while.

        Raises UserError for whatever cannot be used.
        """

    @abstractmethod
    def grader(self, source: Any, rules: str) -> Grader[RowT]:
        """What scores the units of a run, by one of `rule_sets`. Raises UserError if its data is missing."""

    def data(self, source: Any) -> DataRef:
        """The data set, with the digest by which two runs are over the same items."""
        items = [asdict(item) for item in self.items(source)]
        digest = hashlib.sha256(json.dumps(items, sort_keys=True, default=str).encode()).hexdigest()
        return DataRef(name=self.name, digest=digest)

    def source(self, run: Run, overrides: Mapping[str, Any]) -> Any:
        """The settings that name a finished run's data: those in its `run.json`, and the grading options `given`.

        Raises UserError for a value that cannot be used, or for a path that the folder may not name.
        """
        document = run.document
        recorded = {**document.get("places", {}), **document["settings"]}
        model = self.Source or self.Settings
        known = dict(overrides)
        for field in options(self.Settings):
            value = recorded.get(field.flag)
            if value is None or field.name in overrides or field.name not in model.model_fields:
                continue
            is_path = field.option.kind == "path" and field.name not in RunSettings.model_fields
            known[field.name] = named_path(run.path, field.flag, str(value)) if is_path else value
        return checked(model, {name: value for name, value in known.items() if value is not None})

    def named(self, unit: str) -> tuple[Item, int]:
        """The item and the trial that a unit's key names, for a run whose items cannot be read."""
        item, _, trial = unit.rpartition("#")
        return (Item(id=item), int(trial)) if item and trial.isdigit() else (Item(id=unit), 1)

    def allow_unread(self, source: Any) -> float:
        """The share of judged answers that may have no readable label in a complete run."""
        return 0.0

    def judged(self, run: Run) -> Mapping[str, Judgement] | None:
        """What judges said of each unit of a run; None if its answers are not judged."""
        return None

    def import_data(self, path: Path) -> str | None:
        """Take over published data for later runs: what was done, in a line; None if it is not the benchmark's.

        Raises UserError, InputError for data of the benchmark's that cannot be used.
        """
        return None

    def write(self, run: Run, scores: Sequence[Scored]) -> Sequence[str]:
        """Write the benchmark's official files into the run's folder; returns their names. Raises UserError."""
        return ()

    def notes(self, run: Run) -> Iterable[str]:
        """What a reader of the figures must know of the run's folder."""
        return ()

    def paired(self, first: Run, second: Run) -> Paired | None:
        """The official score of two runs, if that is no mean of its items; `medagent compare` pairs items otherwise."""
        return None

    def graded_file(self, path: Path, options: Mapping[str, Any]) -> Report:
        """The report of a results file that is no run's; `given` are grading options. Raises UserError, InputError."""
        raise UserError(f"{path}: is no run's folder, and {self.name} has no results files of its own")

    def export_official(self, run: Run, scores: Sequence[Scored], out: Path) -> Sequence[Path]:
        """Write the run into a folder in the form of the benchmark's own tools; the default copies what `write` wrote.

        Raises UserError.
        """
        files = [run.path / name for name in self.write(run, scores)]
        try:
            out.mkdir(parents=True, exist_ok=True)
            if present := [file.name for file in files if (out / file.name).exists()]:
                raise UserError(f"{out / present[0]}: is there already; name another folder")
            return [Path(copyfile(file, out / file.name)) for file in files]
        except OSError as error:
            raise UserError(f"{error.filename or out}: cannot be written: {error.strerror}") from None

    def blocks(self, item: Any, row: RowT, score: Score | None) -> Sequence[Block]:
        """What a page and `medagent show` display of a unit. The default: question, answer, checks, messages."""
        return list(self.default_blocks(item, row, score))

    def default_blocks(self, item: Item, row: RowT, score: Score | None) -> Iterator[Block]:
        """The blocks that need nothing but what every benchmark has."""
        if item.question:
            yield TextBlock("Question", item.question)
        if item.target:
            answer = self.answer(row)
            yield AnswerBlock(answer, [item.target], score.correct if score else None)
        if score is not None and score.checks:
            yield ChecksBlock([(one.name, one.passed, one.expected, one.actual) for one in score.checks])
        if messages := [Message(one.role, one.text, one.reasoning or "") for one in self.messages(row)]:
            yield ConversationBlock(messages)

    def panels(self, report: Report, scores: Sequence[Scored]) -> Sequence[Block]:
        """What a page displays of the run beside its items."""
        return ()

    def messages(self, row: RowT) -> Sequence[ShownMessage]:
        """What was said in a unit, in order."""
        reply = getattr(row, "reply", None)
        return [] if reply is None else [ShownMessage("answer", reply, getattr(row, "reasoning", None))]

    def answer(self, row: RowT) -> str | None:
        """What was answered in a unit; None if there is no answer."""
        answer = getattr(row, "answer", None)
        return answer if answer is not None else getattr(row, "reply", None)

    @property
    def command(self) -> str:
        """The command that runs it."""
        return f"medagent run {self.reference or self.name}"

    @property
    def journals(self) -> Mapping[str, JournalKind]:
        """The journals of a run, `episodes.jsonl` first."""
        return {
            JOURNAL: JournalKind(self.row),
            **self.judgements,
            LEARNED: JournalKind(LearnedRow, LEARNING, optional=True),
        }
