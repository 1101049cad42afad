"""What a benchmark is, and how one is found.

A benchmark is one object: its name, its settings (a pydantic model from which the options of `medagent run NAME` are
made), a plan (data, units, the job that a worker process opens), how rows are graded into a `Report`, how one item is
shown. The engine does everything else: concurrency, journal, resume, limits, clusters, progress, tables. Benchmarks
are found by the entry-point group `medagent.benchmarks`, or by an import path (`my_bench.py:Sums`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, ClassVar

from medagent.agents.calls import CallJob, ReplyRow
from medagent.agents.choice import AgentChoice
from medagent.core import plugins
from medagent.core.errors import UserError
from medagent.core.options import Setting
from medagent.engine.folder import benchmark_of
from medagent.engine.journals import JournalKind, Run
from medagent.engine.plan import JOURNAL, Plan, Stage
from medagent.engine.report import DataRef, ItemOutcome, ItemView, Report, ShownMessage
from medagent.engine.rows import Row
from medagent.engine.run import Findings, Say, Standing
from medagent.engine.selection import mixed
from medagent.engine.settings import RunSettings
from medagent.reports.page.blocks import Block, ConversationBlock, Details, ItemDetail, Message, TextBlock

GROUP = "medagent.benchmarks"
DEFAULT = "medagentbench"


class Benchmark(ABC):
    """The base of benchmarks; an instance is all that a run needs."""

    name: ClassVar[str]
    Settings: ClassVar[type[RunSettings]] = RunSettings
    journals: ClassVar[Mapping[str, JournalKind]] = {JOURNAL: JournalKind(ReplyRow)}
    """The journals of a run and their rows, `episodes.jsonl` first."""
    unit_noun: ClassVar[str] = "items"
    """What its units are called, in the plural."""
    example: ClassVar[str] = ""
    """A command to copy, for `--help`."""
    reference: str = ""
    """What it was found by, where that is not its name: an import path, which a run's folder keeps."""

    @abstractmethod
    async def plan(self, settings: Any, say: Say) -> Plan:
        """Work a run out, before the first call. `say` is told of work that takes a while.

        Raises UserError for whatever cannot be used.
        """

    @abstractmethod
    def grade(self, run: Run) -> Findings:
        """Grade the rows of a run's folder, finished or not. Raises UserError where its data is not there."""

    def finish(self, plan: Plan, run: Run, standing: Standing) -> Findings:
        """Write the benchmark's own files after a run, and grade it."""
        return self.grade(run)

    def show(self, run: Run, item: str) -> ItemView:
        """One item of a run for reading; `item` is its key. Raises UserError where the run does not have it."""
        row = next(run.rows(self.journals[JOURNAL].row, units=[item]), None)
        if row is None:
            raise UserError(f"{run.path}: holds no episode {item}")
        kept = row.model_dump(exclude_none=True, exclude_defaults=True, exclude={"unit", "spent", "traceback"})
        return ItemView(
            self.messages(row), [*(f"{name}: {value}" for name, value in kept.items()), *failure_lines(row)]
        )

    def details(self, run: Run, report: Report, **wanted: Any) -> Details:
        """What an HTML report shows of a run beside its figures: every item as blocks, and panels of its own.

        `wanted` says where data is, where the run does not: MedAgentBench's options of `medagent grade`, which the
        others are never given. Raises UserError.
        """

        def items() -> Iterator[ItemDetail]:
            for row in run.rows(self.journals[JOURNAL].row):
                said = [Message(one.role, one.text, one.reasoning or "") for one in self.messages(row)]
                blocks: list[Block] = [ConversationBlock(said, title="What was said")] if said else []
                yield ItemDetail(row.unit, 1, [*blocks, *ending_blocks(row)], row)

        return Details(items)

    def messages(self, row: Any) -> Sequence[ShownMessage]:
        """What was said in a row of `episodes.jsonl`, in order."""
        reply = getattr(row, "reply", None)
        return [] if reply is None else [ShownMessage("answer", reply, row.reasoning)]

    def ungraded(self, run: Run) -> Sequence[ItemOutcome]:
        """The items of a run that cannot be graded yet, by how they ended."""
        return [ItemOutcome(item=row.unit, status=row.status) for row in run.rows(self.journals[JOURNAL].row)]

    def single_turn(
        self,
        settings: RunSettings,
        prompts: dict[str, str],
        data: DataRef,
        *,
        items: dict[str, Any] | None = None,
        decides: dict[str, Setting] | None = None,
    ) -> Plan:
        """The plan of a benchmark of single questions: a message an item, keyed by the item's id.

        `items` are what an agent is given as its task. Raises UserError where nobody answers, or nothing is selected.
        """
        from medagent.agents.calls import Call, trial_keys

        who = AgentChoice.of(settings)
        chosen = selected(list(prompts), settings)
        calls = [
            Call(key, prompts[item], trial=trial, item=(items or prompts)[item])
            for item, (key, trial) in zip(chosen * settings.trials, trial_keys(chosen, settings.trials), strict=True)
        ]
        return Plan(
            settings=settings,
            folder=settings.run_folder(self.name, who.label),
            data=data,
            stages=(Stage(CallJob({"": who}, settings.concurrency, ReplyRow, settings.strip_thinking), lambda: calls),),
            decides={**settings.decides(), **who.digests(), "data-digest": data.digest, **(decides or {})},
            command=f"medagent run {self.reference or self.name}",
        )


def selected(ids: Sequence[str], settings: RunSettings, group: Callable[[str], str] = lambda _: "") -> list[str]:
    """The ids that `--ids`, `--per-type` and `--limit` leave, in an order that mixes the groups (types).

    Raises UserError for an unknown id.
    """
    known = set(ids)
    if unknown := [one for one in settings.ids if one not in known]:
        some = ", ".join([*ids[:3], "…"] if len(ids) > 4 else ids)
        raise UserError(f"--ids {unknown[0]}: there is no such item; there are {len(ids)}: {some}")
    wanted = set(settings.ids)
    chosen = [one for one in ids if not wanted or one in wanted]
    return mixed(chosen, group, per_group=settings.per_type)[: settings.limit]


def ending_blocks(row: Row) -> list[Block]:
    """How a row ended, where that was not with an answer: its error, and its traceback where it has one."""
    blocks: list[Block] = [TextBlock(f"Ended: {row.status}", row.error)] if row.error else []
    if row.traceback:
        blocks.append(TextBlock("Traceback", row.traceback.rstrip(), folded=True, verbatim=True))
    return blocks


def failure_lines(row: Row) -> list[str]:
    """Why a row's replies ended, in order, and its traceback, where it has one."""
    reasons = [call.finish_reason or "none" for call in row.spent.each]
    lines = [f"finish reasons: {', '.join(reasons)}"] if any(call.finish_reason for call in row.spent.each) else []
    return lines + (row.traceback.rstrip().split("\n") if row.traceback else [])


def names() -> list[str]:
    """The names of all benchmarks that are installed, the default one first."""
    found = sorted({point.name for point in entry_points(group=GROUP)})
    return sorted(found, key=lambda name: name != DEFAULT)


def find(name: str) -> Benchmark:
    """The benchmark of a name or an import path. Raises UserError, naming what there is."""
    plugin = plugins.find(name, GROUP)
    if plugin is None:
        raise UserError(f"unknown benchmark {name!r}; known: {', '.join(names())}")
    found = plugin.load()
    benchmark = found() if isinstance(found, type) else found
    if not isinstance(benchmark, Benchmark):
        raise UserError(f"{plugin.path}: is no subclass of medagent.Benchmark")
    if name != benchmark.name:
        benchmark.reference = name
    return benchmark


def of_folder(folder: Path) -> Benchmark:
    """The benchmark that made a run's folder. Raises UserError where that is not to be told or it is not installed."""
    return find(benchmark_of(folder))
