"""Executes a run: plan → stages of units → journals → scores → tables → `Report`.

The benchmark scores each unit and makes the tables. `results` adds the parts of every run: settings, cost,
failures, owed units.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Container, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import Any

from medagent.core.errors import ExecutorLostError, StopRunError, UserError
from medagent.core.named_paths import remember_options
from medagent.core.number_formats import some_are
from medagent.core.options import options
from medagent.core.writing import MANIFEST, file_digest
from medagent.engine.benchmark import Benchmark, Say
from medagent.engine.folder import Journals, Run, RunFolder
from medagent.engine.journal import PROCESS, Journal
from medagent.engine.learning import LEARNED, Learning, SequentialExecutor, agent_folder, folder_of, learns
from medagent.engine.limits import UNLIMITED, RunLimits, Spending, Stop, UnitLimits
from medagent.engine.local import Feed, LocalExecutor
from medagent.engine.pairs import metrics_of, pairs_of
from medagent.engine.patient_data import owner_only
from medagent.engine.plan import JOURNAL, Executor, Job, Plan, Stage, U
from medagent.engine.progress import Progress
from medagent.engine.report import ITEMS, REPORT, Report, write_report
from medagent.engine.results import Graded, Standing, compose
from medagent.engine.rows import R, Row
from medagent.engine.scores import SCORES, Grader, Scored, Scoring, StoredScores
from medagent.engine.settings import RunSettings
from medagent.engine.unfit import Unfit

_REPEATABLE = ("cut", "empty", "only_thought", "invalid_action", "context_limit", "round_limit", "token_limit")
"""Statuses that follow from a model's replies to the same requests."""
HOPELESS = 10
"""A run stops if its first 10 units all fail in the same way, because the next ones would fail too."""


@dataclass(slots=True)
class Summary:
    """The state of a run's units at its end. `stopped` is the reason if it ended early: a limit, a lost cluster, or
    units that all fail.
    """

    total: int
    done: int
    owed: list[str]
    stopped: Stop | None = None


@dataclass(frozen=True, slots=True)
class Watch:
    """What happens with a row after it is on disk: it is scored and displayed."""

    progress: Progress
    score: Callable[[str], Awaitable[Scored | None]] | None = None
    pending: bool = False
    """Whether the executor must run although no unit is owed."""
    quotes: bool = True
    """Whether messages may have the texts of units' errors."""


async def run_units(
    job: Job[U, R],
    units: Sequence[U],
    journal: Journal[R],
    executor: Executor,
    watch: Watch,
    limits: RunLimits = UNLIMITED,
    retry: Collection[str] = (),
    pairs: Mapping[str, str] = MappingProxyType({}),
    turn: Callable[[], Awaitable[None]] | None = None,
) -> Summary:
    """Run every unit that is owed, and every unit whose status is in `retry`, with the other unit of its pair.

    `pairs` lists the pair of each unit that belongs to one. Both units of a pair start, or none. `turn` is awaited
    before a unit starts.

    Raises StopRunError if the endpoint refuses the whole run, UserError if the journal cannot be written. Finished
    units stay finished in every case.
    """
    due = _due([unit.key for unit in units], journal, retry, pairs)
    owed = [unit for unit in units if unit.key in due]
    if owed and not journal.writable:
        raise UserError(
            f"{journal.path}: cannot be written, but {some_are(len(owed), len(units), 'units')} owed; "
            "make the folder writable, or copy it"
        )
    groups = [list(group) for _, group in groupby(owed, lambda unit: pairs.get(unit.key, unit.key))]
    feed = Feed(groups, journal, limits)
    progress, beginning, unfit = watch.progress, _Beginning(), Unfit(journal)

    async def durable(appended: Awaitable[None], row: R) -> None:
        await appended
        scored = await watch.score(row.unit) if watch.score is not None else None
        progress.add(row, journal.spent, scored)
        if beginning.is_hopeless(row):
            error = f"{row.status}: {row.error}" if watch.quotes else beginning.kind
            feed.stop(f"the first {HOPELESS} units failed in the same way: {error}")

    def done(row: R) -> Awaitable[None]:
        row = unfit.written(row)
        if unfit.stops:
            feed.stop(unfit.text(quotes=watch.quotes))
        appended = journal.append(row)
        feed.end(row)
        return durable(appended, row)

    async def take() -> U | None:
        if turn is not None:
            await turn()
        return await feed.take()

    lost: Stop | None = None
    with progress:
        progress.begin(len(units), len(units) - len(owed))
        if owed or watch.pending:
            lost = await _executed(executor.run(job, take, done, progress), progress, unfit)
            if stop := await unfit.settled(quotes=watch.quotes):
                feed.stop(stop)
    left = [unit.key for unit in units if journal.is_owed(unit.key)]
    return Summary(len(units), len(units) - len(left), left, lost or feed.stopped)


async def _executed(work: Coroutine[Any, Any, None], progress: Progress, unfit: Unfit[Any]) -> Stop | None:
    """Wait for an executor, and show a line while nothing ends. Returns why it was lost, if it was."""
    stalls = asyncio.create_task(progress.watch_stalls())
    try:
        await unfit.watched(work)
    except ExecutorLostError as error:
        return Stop(str(error))
    finally:
        stalls.cancel()
    return None


@dataclass(slots=True)
class _Beginning:
    """Watches the first rows of a run for user code that always fails."""

    failures: int = 0
    kind: str = ""
    over: bool = False

    def is_hopeless(self, row: Row) -> bool:
        """Whether this row is the `HOPELESS`th, and all rows so far have failed in the same way."""
        if self.over or row.status == "cancelled":
            return False
        kind = f"{row.status}: {row.error_type}" if row.error_type else ""
        if not kind or self.kind not in ("", kind):
            self.over = True
            return False
        self.kind = kind
        self.failures += 1
        self.over = self.failures >= HOPELESS
        return self.over


_OWN = {REPORT, ITEMS, SCORES, "run.json", PROCESS, MANIFEST}
"""The engine's own files, which are ignored when the results are checked for changes."""


async def execute(
    plan: Plan, benchmark: Benchmark[Any, Any], *, quiet: bool = True, say: Say = lambda _: None
) -> Report:
    """Execute a plan and return its report. `say` is called with messages for the user.

    Raises UserError, StopRunError (the endpoint refused the run) and cancellation. Finished units stay on disk.
    """
    settings, source = plan.settings, _source(plan)
    if settings.sequential and benchmark.judgements:
        raise UserError(
            f"--sequential is not available for {benchmark.name}, whose scores exist only after all answers are judged"
        )
    remember_options(settings)
    agent_folder.set(folder_of(plan.folder) if settings.sequential else None)
    for stage in plan.stages:  # fail before anything is written
        async with stage.job.open():
            pass
    with (
        owner_only(plan.owner_only),
        benchmark.grader(source, benchmark.rule_sets[0]) as grader,
        RunFolder(
            plan.folder,
            plan.command,
            plan.decides,
            about={"benchmark": benchmark.reference or benchmark.name, "data": plan.data.model_dump()},
            places=settings.places(),
            unwritten=settings.unwritten(),
            options=options(type(settings), "run"),
            overwrite=settings.overwrite,
            reuse=settings.reuse,
        ) as folder,
    ):
        for note in () if quiet else plan.notes:
            say(note)
        for warning in plan.warnings:
            say(f"warning: {warning}")
        if settings.model and settings.trials > 1 and settings.temperature == 0:
            say(
                f"hint: {settings.trials} trials at temperature 0 repeat the same requests, so they show only the "
                "randomness of the endpoint; pass --temperature 0.7, for example, to sample the model"
            )
        say_same_again(settings, say)
        plan.prepare()
        with Journals(
            folder.path,
            benchmark.journals,
            first=folder.journal,
            writable=folder.writable,
            optional=settings.sequential is not None,
        ) as journals:
            return await _carried_out(plan, benchmark, grader, folder, journals, quiet, say)


def say_same_again(settings: RunSettings, say: Say) -> None:
    """Say it if `--retry` will send the same requests at temperature 0, and so get the same replies."""
    same = [status for status in settings.retry if status in _REPEATABLE]
    if settings.model and same and settings.temperature == 0:
        say(
            f"hint: --retry {','.join(same)} repeats the same requests at temperature 0, so it will give the same; "
            "start another --round with other settings, for example a higher --max-tokens or --temperature 0.7"
        )


async def _carried_out(
    plan: Plan,
    benchmark: Benchmark[Any, Any],
    grader: Grader[Any],
    folder: RunFolder,
    journals: Journals,
    quiet: bool,
    say: Say,
) -> Report:
    """Run the stages, score every unit, and write the results."""
    items, settings = {item.id: item for item in plan.items}, plan.settings
    stored = StoredScores(folder.path / SCORES, writable=folder.writable)

    def scoring(judged: Mapping[str, Any] | None) -> Scoring[Any]:
        return Scoring(items, grader, journals[JOURNAL], stored, judged)

    is_judged = any(stage.journal in benchmark.judgements for stage in plan.stages)
    if is_judged:
        benchmark.source(Run(folder.path, journals), {})  # judges read it; fail before the first call
    units = _selected(plan, journals)
    reused = len(units) - len(_due(units, journals[JOURNAL], settings.retry, pairs_of(units, items)))
    standing = await _stages(plan, journals, folder, scoring({} if is_judged else None), quiet, say)
    if standing.stopped:
        command = plan.repeat or folder.command_without(standing.stopped.option or "")
        say(_stopped(standing.stopped, standing, benchmark.unit_noun, command, journals.account))
    elif standing.exceeded:
        say(f"{standing.exceeded}.")
    idle = journals.idle and not standing.owed
    names = _OWN | benchmark.journals.keys()
    before = _digests(folder.path, names) if idle else {}
    run = Run(folder.path, journals)
    scores = await scoring(benchmark.judged(run)).of_units(units)
    metrics, allowed = metrics_of(grader, scores), benchmark.allow_unread(_source(plan))
    files = benchmark.write(run, scores) if folder.writable else ()
    graded = Graded(scores, metrics, grader.rules, grader.rules_version, grader.digests, files, allowed)
    report = compose(benchmark, folder.path, graded, journals, replace(standing, reused=reused))
    if folder.writable:
        write_report(folder.path, report)
    if idle:
        say(_finished(folder.path, before, _digests(folder.path, names)))
    return report


def _source(plan: Plan) -> Any:
    """The object that identifies a plan's data for grading."""
    return plan.settings if plan.source is None else plan.source


def _selected(plan: Plan, journals: Journals) -> Sequence[str]:
    """The units of the plan; if the plan only judges again, all units with a row."""
    answers = [stage for stage in plan.stages if stage.journal == JOURNAL]
    return [unit.key for stage in answers for unit in stage.units()] or list(journals[JOURNAL].units)


def _due(units: Sequence[str], journal: Journal[Any], retry: Collection[str], pairs: Mapping[str, str]) -> set[str]:
    """The units to run: those that are owed, and those whose status is in `retry`, with the other unit of the pair."""
    again = {pairs.get(unit, unit) for unit in units if journal.status(unit) in retry}
    return {unit for unit in units if journal.is_owed(unit) or pairs.get(unit, unit) in again}


def _stopped(stop: Stop, standing: Standing, noun: str, without: str, spent: Spending) -> str:
    """The message about a run that ended early, with the command that continues it if units are owed. `without` is that
    command without the limit. A budget is raised to twice what was `spent`, so that it is above it.
    """
    if not standing.owed:
        return f"{stop.text}."
    how, command = "Continue", standing.command
    if stop.option and stop.enforceable:
        how = f"Raise {stop.option} to continue"
        budgets = {"--max-tokens-total": f"{2 * spent.tokens}", "--max-cost": f"{2 * spent.cost:.2g}"}
        if stop.option in budgets:
            command = f"{without} {stop.option} {budgets[stop.option]}"
    elif stop.option:
        how, command = f"Continue without {stop.option}", without
    owed = f"{some_are(len(standing.owed), standing.total, noun)} still owed"
    return f"{stop.text}; {owed}.\n{how}: {command}"


def _finished(folder: Path, before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """The message about a run that was already finished. `before` and `after` are the digests of its files."""
    if rewritten := sorted(name for name in after if after[name] != before.get(name)):
        return f"{folder} is complete; made again from its journal: {', '.join(rewritten)}."
    return (
        f"{folder} is complete and was not changed. For another run, pass another --round; to delete this run and "
        "start again, pass --overwrite."
    )


def _digests(folder: Path, beside: Container[str]) -> dict[str, str]:
    """The SHA-256 of each file by name, without the files in `beside`."""
    files = (file for file in folder.iterdir() if file.is_file() and file.name not in beside)
    return {file.name: file_digest(file) for file in files}


async def _stages(
    plan: Plan, journals: Journals, folder: RunFolder, scoring: Scoring[Any], quiet: bool, say: Say
) -> Standing:
    owed: list[str] = []
    total = 0
    stopped: Stop | None = None
    command = plan.repeat or folder.command
    for stage in plan.stages:
        if stopped:
            break
        if stage.title and not quiet:
            say(stage.title)
        try:
            summary = await _stage(plan, stage, journals, folder, scoring, quiet, say)
        except StopRunError as error:
            text = error.unquoted if plan.owner_only else str(error)
            raise StopRunError(f"{text} (the run stopped; finished units are saved)") from None
        except asyncio.CancelledError:
            say(f"Interrupted. Finished units are saved. Continue: {command}")
            raise
        owed += summary.owed
        total += summary.total
        stopped = summary.stopped
    limits = RunLimits(plan.settings.max_cost, plan.settings.max_tokens_total)
    exceeded = None if journals.idle else limits.exceeded(journals.account)
    return Standing(owed, total, stopped, exceeded, command)


async def _stage(
    plan: Plan,
    stage: Stage[Any, Any],
    journals: Journals,
    folder: RunFolder,
    scoring: Scoring[Any],
    quiet: bool,
    say: Say,
) -> Summary:
    settings, units = plan.settings, stage.units()
    if not units and not stage.title:  # the earlier stages left no units for this one
        return Summary(0, 0, [])
    progress = Progress(quiet=quiet)
    carries_out: Executor = executor(settings)
    pending = False
    if settings.sequential:
        learning = Learning(journals[JOURNAL], journals[LEARNED], units, scoring, settings.sequential)
        carries_out = SequentialExecutor(learning, unit_limits(settings))
        pending = learns(stage.job) and learning.any_pending
    summary = await run_units(
        stage.job,
        units,
        journals[stage.journal],
        carries_out,
        Watch(progress, scoring.of_unit if stage.journal == JOURNAL else None, pending, quotes=not plan.owner_only),
        RunLimits(
            settings.max_cost,
            settings.max_tokens_total,
            settings.fail_after,
            journals.account_beside(stage.journal),
            unit_limits(settings),
        ),
        settings.retry,
        pairs_of([unit.key for unit in units], {item.id: item for item in plan.items}),
        plan.turn,
    )
    folder.state("endpoint", progress.stated)
    for note in progress.notes:
        say(note)
    return summary


def unit_limits(settings: RunSettings) -> UnitLimits:
    """The limits of one unit of a run."""
    return UnitLimits(settings.unit_time, settings.unit_tokens, settings.unit_cost)


def executor(settings: RunSettings) -> Executor:
    """The executor of a run: this process, or a cluster if the settings name one."""
    limits = unit_limits(settings)
    if settings.cluster or settings.workers:
        from medagent.engine.cluster import ClusterExecutor, WorkerWait

        wait = WorkerWait.of(settings.wait_for_workers) if settings.wait_for_workers else None
        return ClusterExecutor(settings.cluster, settings.workers, settings.concurrency, limits, wait)
    return LocalExecutor(settings.concurrency, limits)
