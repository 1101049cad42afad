"""The one run: plan → stages of units → journals → findings → `Report`. It knows no benchmark.

What a benchmark makes of the journals (its official files, its figures) it says as `Findings`; what every run has
(settings, cost, failures, what is owed) is added here, and the whole is kept as `report.json`.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

from medagent.core.errors import MedagentError, StopRunError, UserError
from medagent.engine.files import write_changed_parts
from medagent.engine.folder import RunFolder, read_run
from medagent.engine.job import Executor
from medagent.engine.journal_file import PROCESS
from medagent.engine.journals import JournalKind, Journals, Run
from medagent.engine.limits import Limits
from medagent.engine.local import LocalExecutor
from medagent.engine.memory import few_collections
from medagent.engine.plan import Plan, Stage
from medagent.engine.progress import Progress
from medagent.engine.report import DataRef, ItemOutcome, Measure, Report, TableLine, TableSection
from medagent.engine.rows import FAILED, Spent
from medagent.engine.settings import RunSettings
from medagent.engine.unit_limits import UnitLimits
from medagent.engine.units import Summary, Watch, run_units

REPORT = "report.json"
_OWN = {REPORT, "run.json", PROCESS}
"""Files of the engine's own, which say nothing of whether the results stay."""
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Standing:
    """How a run stands when its stages are over: what is owed, of how many, and what ended it early (a limit)."""

    owed: Sequence[str] = ()
    total: int = 0
    stopped: str | None = None
    exceeded: str | None = None
    """The limit that all that was run came to be above."""
    command: str = ""
    """What continues the run."""


@dataclass(frozen=True, slots=True)
class Findings:
    """What a benchmark found in a run: its part of the `Report`. `details` are fields of its own."""

    table: Sequence[TableSection] = ()
    overall: TableLine | None = None
    items: Sequence[ItemOutcome] = ()
    notes: Sequence[str] = ()
    files: Sequence[str] = ()
    ungraded: int = 0
    unusable: str = ""
    measure: Measure = "percent"
    figure: str = "rate"
    count: str = "n"
    rule_set: str = ""
    details: dict[str, Any] = field(default_factory=dict)


class Scorer(Protocol):
    """What the engine asks of a benchmark."""

    @property
    def name(self) -> str:
        """The benchmark's name."""
        ...

    @property
    def reference(self) -> str:
        """What it was found by, where that is not its name."""
        ...

    @property
    def unit_noun(self) -> str:
        """What its units are called, in the plural."""
        ...

    @property
    def journals(self) -> Mapping[str, JournalKind]:
        """The journals that it keeps, `episodes.jsonl` first."""
        ...

    def finish(self, plan: Plan, run: Run, standing: Standing) -> Findings:
        """Write the official files and grade."""
        ...

    def grade(self, run: Run) -> Findings:
        """Grade a folder as it is."""
        ...

    def ungraded(self, run: Run) -> Sequence[ItemOutcome]:
        """The items of a folder that cannot be graded yet."""
        ...


async def execute(plan: Plan, scorer: Scorer, *, quiet: bool = True, say: Say = lambda _: None) -> Report:
    """Carry a plan out and return what came of it; `say` is told what a person should know meanwhile.

    Raises UserError, StopRunError (the endpoint refused the run) and cancellation; what was finished is on disk.
    """
    settings = plan.settings
    for stage in plan.stages:  # whatever cannot be opened is found before anything is made
        async with stage.job.open():
            pass
    with RunFolder(
        plan.folder,
        plan.command,
        plan.decides,
        benchmark=scorer.reference or scorer.name,
        data=plan.data.model_dump(),
        places=settings.places(),
        limits=settings.limits(),
        overwrite=settings.overwrite,
    ) as folder:
        for warning in plan.warnings:
            say(f"warning: {warning}")
        if settings.model and settings.trials > 1 and settings.temperature == 0:
            say(
                f"hint: {settings.trials} trials at temperature 0 repeat the same request, so they show the endpoint's "
                "chance alone; --temperature 0.7, for one, samples the model's"
            )
        plan.prepare()
        with (
            few_collections(),
            Journals(folder.path, scorer.journals, first=folder.journal, writable=folder.writable) as journals,
        ):
            standing = await _stages(plan, journals, folder, quiet, say)
            if standing.stopped:
                say(_stopped(standing, scorer.unit_noun))
            elif standing.exceeded:
                say(f"{standing.exceeded}.")
            idle = journals.idle and not standing.owed
            before = folder.digests(_OWN | scorer.journals.keys()) if idle else {}
            findings = scorer.finish(plan, Run(folder.path, journals), standing)
            report = compose(scorer, folder.path, findings, journals, standing)
            if folder.writable:
                keep(folder.path, report)
            if idle:
                say(_finished(folder.path, before, folder.digests(_OWN | scorer.journals.keys())))
    return report


def _stopped(standing: Standing, noun: str) -> str:
    """What ended the run early, and the command that continues it."""
    limit = re.match("(--[a-z-]+) .*(is reached|cannot be kept)", standing.stopped or "")
    how, command = "Continue", standing.command
    if limit and limit[2] == "is reached":
        how = f"Raise {limit[1]} to continue"
    elif limit:
        how, command = f"Continue without {limit[1]}", re.sub(rf" {limit[1]} \S+", "", command)
    owed = f"{len(standing.owed)} of {standing.total} {noun} are still owed"
    return f"{standing.stopped}; {owed}.\n{how}: {command}"


def _finished(folder: Path, before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """That a run was finished before; its files by their digests, as they were then and are now."""
    if made := sorted(name for name in after if after[name] != before.get(name)):
        return f"{folder} is finished; made again from its journal: {', '.join(made)}."
    return f"{folder} is finished and stays as it is. Another run: another --round. Start anew: --overwrite."


async def _stages(plan: Plan, journals: Journals, folder: RunFolder, quiet: bool, say: Say) -> Standing:
    owed: list[str] = []
    total, stopped = 0, None
    command = plan.repeat or folder.command
    for stage in plan.stages:
        if stopped:
            break
        if stage.title and not quiet:
            say(stage.title)
        try:
            summary = await _stage(plan, stage, journals, quiet, say)
        except StopRunError as error:
            raise StopRunError(f"{error} (the run stopped; what was finished is kept)") from None
        except asyncio.CancelledError:
            say(f"Interrupted. What was finished is kept. Continue: {command}")
            raise
        owed += summary.owed
        total += summary.total
        stopped = summary.stopped
    limits = Limits(plan.settings.max_cost, plan.settings.max_tokens_total)
    exceeded = None if journals.idle else limits.exceeded(journals.account)
    return Standing(owed, total, stopped, exceeded, command)


async def _stage(plan: Plan, stage: Stage[Any, Any], journals: Journals, quiet: bool, say: Say) -> Summary:
    settings = plan.settings
    progress = Progress(quiet=quiet, group=stage.group)
    summary = await run_units(
        stage.job,
        stage.units(),
        journals[stage.journal],
        executor(settings),
        Watch(progress, stage.grade),
        Limits(
            settings.max_cost, settings.max_tokens_total, settings.fail_after, journals.account_beside(stage.journal)
        ),
        settings.retry,
    )
    for note in progress.notes:
        say(note)
    return summary


def executor(settings: RunSettings) -> Executor:
    """Where the units run: this process, or a cluster where one is asked for."""
    limits = UnitLimits(settings.unit_time, settings.unit_tokens, settings.unit_cost)
    if settings.cluster and settings.workers:
        raise UserError("--cluster has workers of its own: leave --workers out")
    if settings.cluster or settings.workers:
        from medagent.engine.cluster import ClusterExecutor

        return ClusterExecutor(settings.cluster, settings.workers, settings.concurrency, limits)
    return LocalExecutor(settings.concurrency, limits)


def compose(scorer: Scorer, folder: Path, findings: Findings, journals: Journals, standing: Standing) -> Report:
    """The report of a run's folder."""
    endings: Counter[str] = Counter()
    failed: list[str] = []
    owed = set(standing.owed)
    spending: dict[str, Spent] = {}
    for role, journal in journals.items():
        endings.update(journal.endings())
        for unit, status, error in journal.failures():
            if unit in owed or status == FAILED:
                failed.append(f"{unit}: {status}: {error}")
        spending.update({f"{role} {who}".strip(): spent for who, spent in journal.spent_by.items()})
    run = read_run(folder)
    return Report(
        benchmark=scorer.name,
        folder=str(folder),
        data=DataRef.model_validate(run.get("data") or {"name": ""}),
        settings=run["settings"],
        versions=run.get("versions", {}),
        rule_set=findings.rule_set,
        started=min(filter(None, (journal.began for _, journal in journals.items())), default=""),
        ended=max((journal.ended for _, journal in journals.items()), default=""),
        measure=findings.measure,
        figure=findings.figure,
        count=findings.count,
        table=tuple(findings.table),
        overall=findings.overall,
        items=tuple(findings.items),
        notes=tuple(findings.notes),
        spent=journals.spent,
        unpriced=sum(journal.unpriced for _, journal in journals.items()),
        spending=spending,
        slowest=max((journal.slowest for _, journal in journals.items()), default=0.0),
        endings=dict(endings.most_common()),
        failed=tuple(failed),
        owed=tuple(standing.owed),
        ungraded=findings.ungraded,
        unusable=findings.unusable or _all_failed(scorer.unit_noun, endings, failed),
        stopped=standing.stopped or standing.exceeded,
        command=standing.command,
        files=tuple(findings.files or (*scorer.journals, "run.json", REPORT)),
        journals=dict(journals.states()),
        **findings.details,
    )


def _all_failed(noun: str, endings: Mapping[str, int], failed: Sequence[str]) -> str:
    """That no unit of a run got an answer from its agent, with the most common error; empty where one did."""
    if not failed or set(endings) != {FAILED}:
        return ""
    ((error, _),) = Counter(line.partition(": ")[2] for line in failed).most_common(1)
    return f"All {endings[FAILED]} {noun} ended as {error}. The score is no measure; --retry {FAILED} does them again."


@few_collections()
def report_of(scorer: Scorer, folder: Path) -> Report:
    """The report of a run's folder: as the run left it, or made anew (and not written) where the journals have moved on
    or there is none; a run that cannot be graded yet has its rows counted.

    Raises UserError for a folder that is no run's, or is damaged.
    """
    with Journals.of_folder(folder, scorer.journals) as journals:
        kept = read_report(folder)
        if kept is not None and journals.are_those_of(kept.journals):
            return kept
        run = Run(folder, journals)
        try:
            findings = scorer.grade(run)
        except MedagentError as error:
            findings = Findings(items=scorer.ungraded(run), notes=[f"Not graded yet: {error}"])
        owed = [unit for _, journal in journals.items() for unit in journal.owed()]
        return compose(scorer, folder, findings, journals, Standing(owed))


@few_collections()
def graded(scorer: Scorer, folder: Path, grade: Callable[[Run], Findings] | None = None) -> Report:
    """The report of a run's folder, graded anew, by `grade` or as the benchmark does; nothing is written.

    Raises UserError.
    """
    with Journals.of_folder(folder, scorer.journals) as journals:
        owed = [unit for _, journal in journals.items() for unit in journal.owed()]
        return compose(scorer, folder, (grade or scorer.grade)(Run(folder, journals)), journals, Standing(owed))


def keep(folder: Path, report: Report) -> None:
    """Write `report.json`, unless it is there already. Raises UserError."""
    write_changed_parts(folder / REPORT, lambda: chain(_document(report), ["\n"]))


def document(report: Report) -> str:
    """The report as JSON, as `report.json` has it."""
    return "".join(_document(report))


def _document(report: Report) -> Iterator[str]:
    """The report as JSON, indented by 1, in parts, since it may have a hundred thousand items. The command is left out:
    it says where endpoints are.
    """
    without = report.model_copy(update={"items": ()}).model_dump(mode="json", exclude={"command"})
    head, begin, tail = json.dumps(without, indent=1).partition('\n "items": [')
    yield head + begin
    before = ""
    for first in range(0, len(report.items), _SOME):
        some = report.model_copy(update={"items": report.items[first : first + _SOME]})
        for item in some.model_dump(mode="json", include={"items"})["items"]:
            yield f"{before}\n  {{\n   {_FLAT.encode(item)[1:-1]}\n  }}"
            before = ","
    yield ("\n " if report.items else "") + tail


_SOME = 1_000
_FLAT = json.JSONEncoder(separators=(",\n   ", ": "))
"""Of an object of plain values, laid out as those of a list within the report."""


def read_report(folder: Path) -> Report | None:
    """The report that a run left, None where it has none. Raises UserError for a damaged one."""
    path = folder / REPORT
    if not path.exists():
        return None
    try:
        return Report.model_validate_json(path.read_bytes())
    except (OSError, ValueError):
        raise UserError(f"{path}: is damaged; remove it: the run's command makes it again") from None
