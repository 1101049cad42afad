"""The base class of benchmarks: settings, items, plan, and how a finished unit is scored and shown.

The engine does everything else: concurrency, journal, continuation, limits, clusters, progress, scores, tables. The
command line, reports, exports and adapters for other tools work for every benchmark through this class.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from shutil import copyfile
from typing import Any, ClassVar, Generic, TypeVar, final

from medagent.core.errors import UserError
from medagent.core.named_paths import named_path
from medagent.core.options import by_field, checked, options
from medagent.core.own_code import in_one_line
from medagent.core.tell import Tell, untold
from medagent.core.writing import writing
from medagent.engine.blocks import (
    AnswerBlock,
    Block,
    ChecksBlock,
    ConversationBlock,
    DotsBlock,
    TextBlock,
    TranscriptMessage,
)
from medagent.engine.data_sets import ImportedData, PresentSet, SetMaker, TwinSet
from medagent.engine.folder import JournalKind, Run
from medagent.engine.learning import LEARNED, LEARNING, LearnedRow
from medagent.engine.plan import JOURNAL, Plan
from medagent.engine.report import DataRef, Report, ShownMessage
from medagent.engine.rows import Row
from medagent.engine.scores import Grader, Item, Judgement, Paired, Score, Scored
from medagent.engine.settings import RunSettings

SettingsT = TypeVar("SettingsT", bound=RunSettings)
RowT = TypeVar("RowT", bound=Row)
Say = Callable[[str], None]
"""A function that prints a message for the user."""


class Benchmark(ABC, Generic[SettingsT, RowT]):
    """The base of benchmarks. A run needs one instance."""

    name: ClassVar[str]
    Settings: type[SettingsT]
    row: type[RowT]
    """The rows of `episodes.jsonl`."""
    role: ClassVar[str] = "model"
    """The role of the calls of these rows in the account: those of models, or of judges."""
    Grading: ClassVar[type[RunSettings] | None] = None
    """A subclass of `Settings` with the options that only `medagent grade` accepts; None: there are none."""
    rule_sets: ClassVar[Sequence[str]] = ("",)
    """The names of its rule sets; the first one counts."""
    judgements: ClassVar[Mapping[str, JournalKind]] = {}
    """The journals of its judges."""
    unit_noun: ClassVar[str] = "items"
    """The name of its units, in the plural."""
    example: ClassVar[str] = ""
    """An example command for `--help`."""
    has_verdicts: ClassVar[bool] = True
    """Whether items are right or wrong, so that the smallest significant difference is known before a run."""
    kinds: ClassVar[Mapping[str, str]] = {}
    """Its kinds of failure, each with a description."""
    is_default: ClassVar[bool] = False
    """Whether `medagent run` without a name runs it."""
    most_unread: ClassVar[float] = 0.0
    """The share of judged answers that may lack a readable label in a complete run without `--allow-unread`."""
    imports: ClassVar[str] = ""
    """The published data that `import_data` reads, in words."""
    reference: str = ""
    """The import path if the benchmark was not loaded by name. It is stored in a run's folder."""

    @abstractmethod
    def items(self, source: Any) -> Sequence[Item]:
        """The benchmark's items, in the order of its data. `source` identifies the data: the run's settings, or the
        result of `source()`. Raises UserError.
        """

    @final
    def read_items(self, source: Any) -> Sequence[Any]:
        """The items. An exception of a class that the user named is one line with the places in their code and data.

        Raises UserError.
        """
        if not self.reference:
            return self.items(source)
        return in_one_line(self.reference, type(self), lambda: self.items(source))

    @abstractmethod
    async def plan(self, settings: SettingsT, say: Say) -> Plan:
        """Plan a run before its first call. `say` is called before work that takes a while.

        Raises UserError for settings or data that cannot be used.
        """

    @abstractmethod
    def grader(self, source: Any, rules: str) -> Grader[RowT]:
        """The grader of a run's units by one of `rule_sets`. Raises UserError if its data is missing."""

    def data(self, source: Any) -> DataRef:
        """The data set, with the digest of its items. Runs with equal digests use the same items."""
        items = [asdict(item) for item in self.read_items(source)]
        digest = hashlib.sha256(json.dumps(items, sort_keys=True, default=str).encode()).hexdigest()
        return DataRef(name=self.name, digest=digest)

    def source(self, run: Run, overrides: Mapping[str, Any]) -> Any:
        """The settings that name a finished run's data: those in its `run.json`, replaced by the grading options
        `overrides`.

        Raises UserError for an invalid value, or for a path that the folder may not refer to.
        """
        document, model = run.document, self.Grading or self.Settings
        recorded = {**document["settings"], **document.get("places", {})}
        known = by_field(options(model), overrides)
        for field in options(self.Settings, "source"):
            value = recorded.get(field.key)
            if value is not None and field.name not in known:
                named = field.option.kind != "path" or value == field.default  # the default is in the benchmark's code
                known[field.name] = value if named else named_path(run.path, field.key, str(value))
        return checked(model, {name: value for name, value in known.items() if value is not None})

    @final
    def named(self, unit: str) -> tuple[Item, int]:
        """The item and the trial in a unit's key, for a run whose items cannot be read."""
        item, _, trial = unit.rpartition("#")
        return (Item(id=item), int(trial)) if item and trial.isdigit() else (Item(id=unit), 1)

    @final
    def allow_unread(self, source: Any) -> float:
        """The share of judged answers that may lack a readable label in a complete run."""
        allowed: float = getattr(source, "allow_unread", self.most_unread)
        return allowed

    def judged(self, run: Run) -> Mapping[str, Judgement] | None:
        """The judgement of each unit of a run; None if its answers are not judged."""
        return None

    # Data sets

    def names_data(self, dataset: str) -> bool:
        """Whether a text names one of its data sets: a name, or a file that only this benchmark reads."""
        return False

    def present_sets(self) -> Sequence[PresentSet]:
        """Its data sets on this machine. Raises UserError if one is damaged."""
        return ()

    def generator(self) -> SetMaker:
        """What makes its data sets from seeds. Raises UserError if they cannot be made."""
        raise UserError(f"{self.name}: its data sets cannot be made from a seed")

    def new_twins(
        self, dataset: str, ehr: Path | None, folder: Path, *, triples: bool = False, tell: Tell = untold
    ) -> TwinSet:
        """Make a set of twins of a data set in an empty folder, pairs or triples. `ehr` are other patients; `tell` gets
        the number of finished items and of all. Raises UserError.
        """
        raise UserError(f"{self.name}: is not made of task types, whose rules decide what is right, so it has no twins")

    def check_set(self, path: Path) -> tuple[str, Sequence[str]]:
        """A line about a user's own task file or set, and its problems. Raises UserError if it cannot be used."""
        raise UserError(f"{self.name}: its data cannot be checked")

    def import_data(self, path: Path) -> ImportedData | str | None:
        """Import published data for later runs. Returns a message, with warnings if there are any, or None if the data
        is not this benchmark's.

        Raises UserError or InputError if the benchmark's data cannot be used.
        """
        return None

    def write(self, run: Run, scores: Sequence[Scored]) -> Sequence[str]:
        """Write the benchmark's official files into the run's folder; returns their names. Raises UserError."""
        return ()

    def notes(self, run: Run) -> Iterable[str]:
        """Notes about the run that a reader of the scores needs. `--full` shows a `medagent.engine.BackgroundNote`."""
        return ()

    def paired(self, first: Run, second: Run) -> Paired | None:
        """The official score of two runs if it is not the mean of the items; otherwise None, and items are paired."""
        return None

    def graded_file(self, path: Path, options: Mapping[str, Any]) -> Report:
        """The report of a results file outside a run.

        `options` are the options of grading. Raises UserError, InputError.
        """
        raise UserError(f"{path}: not a run's folder, and {self.name} does not write results files of its own")

    def export_official(self, run: Run, scores: Sequence[Scored], out: Path) -> Sequence[Path]:
        """Write the run into a folder, in the format of the benchmark's own tools. The default copies the files of
        `write`. Raises UserError.
        """
        files = [run.path / name for name in self.write(run, scores)]
        with writing(out):
            out.mkdir(parents=True, exist_ok=True)
            if present := [file.name for file in files if (out / file.name).exists()]:
                raise UserError(f"{out / present[0]}: already exists; choose another folder")
            return [Path(copyfile(file, out / file.name)) for file in files]

    def blocks(self, item: Any, row: RowT, score: Score | None) -> Sequence[Block]:
        """The blocks of a unit for the report page and `medagent show`; default: question, answer, checks, messages."""
        return list(self._blocks(item, row, score))

    def _blocks(self, item: Item, row: RowT, score: Score | None) -> Iterator[Block]:
        if item.question:
            yield TextBlock("Question", item.question)
        if item.target:
            answer = self.answer(row)
            yield AnswerBlock(answer, [item.target], score.correct if score else None)
        if score is not None and score.checks:
            yield ChecksBlock([(check.name, check.passed, check.expected, check.actual) for check in score.checks])
        if messages := [
            TranscriptMessage(message.role, message.text, message.reasoning or "") for message in self.messages(row)
        ]:
            yield ConversationBlock(messages)

    def panels(self, report: Report, scores: Sequence[Scored]) -> Sequence[Block]:
        """The blocks of the run as a whole for the report page; default: the scores by group, if there are several."""
        lines = {line.name: line for section in reversed(report.table) for line in section.lines}
        groups = [name for name in dict.fromkeys(item.group for item in report.items) if name in lines]
        title = "By task type" if report.group_names else "By group"
        dots = [lines[name].dot(name) for name in groups]
        return [DotsBlock(title, dots, group=True, figure=report.figure)] if len(dots) > 1 else []

    def messages(self, row: RowT) -> Sequence[ShownMessage]:
        """The messages of a unit, in order."""
        reply = getattr(row, "reply", None)
        return [] if reply is None else [ShownMessage("answer", reply, getattr(row, "reasoning", None))]

    @final
    def answer(self, row: RowT) -> str | None:
        """The answer of a unit; None if there is none."""
        answer = getattr(row, "answer", None)
        return answer if answer is not None else getattr(row, "reply", None)

    @property
    @final
    def command(self) -> str:
        """The command that runs it, as a shell reads it."""
        return shlex.join(["medagent", "run", *([] if self.is_default else [self.reference or self.name])])

    @property
    @final
    def journals(self) -> Mapping[str, JournalKind]:
        """The journals of a run, `episodes.jsonl` first."""
        return {
            JOURNAL: JournalKind(self.row, self.role),
            **self.judgements,
            LEARNED: JournalKind(LearnedRow, LEARNING, optional=True),
        }
