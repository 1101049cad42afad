"""MedAgentBench as a benchmark: its plan, the results file and the grades made from the journal, one episode shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from medagent.benchmarks.base import Benchmark, failure_lines
from medagent.benchmarks.medagentbench.episode import EpisodeRow
from medagent.benchmarks.medagentbench.findings import EpisodeCounts, GradedTrials, findings, write_grade
from medagent.benchmarks.medagentbench.plan import GradingContext, make_plan
from medagent.benchmarks.medagentbench.regrade import regrade
from medagent.benchmarks.medagentbench.results import grading
from medagent.benchmarks.medagentbench.results.folder import results_of
from medagent.benchmarks.medagentbench.results.paths import grade_path, results_path
from medagent.benchmarks.medagentbench.results.verdicts import ItemEntry, verdicts_of
from medagent.benchmarks.medagentbench.results.write import recorded, write_trials
from medagent.benchmarks.medagentbench.settings import MedAgentBenchSettings
from medagent.benchmarks.medagentbench.views.programs import conversation
from medagent.benchmarks.medagentbench.wanted import Wanted
from medagent.core.errors import MedagentError, UserError
from medagent.engine.figures import dollars
from medagent.engine.journals import JournalKind, Run
from medagent.engine.plan import JOURNAL, Plan
from medagent.engine.report import ItemOutcome, ItemView, Report, ShownMessage
from medagent.engine.rows import FAILED
from medagent.engine.run import Findings, Say, Standing, read_report
from medagent.reports.page.blocks import Details
from refsol.errors import RefsolError
from refsol.medagentbench import Grader
from refsol.medagentbench.grade import evaluate_unanswered


class MedAgentBench(Benchmark):
    """An LLM agent acts on a hospital's FHIR server in ten types of tasks."""

    name = "medagentbench"
    example = "medagent run --version v2 --round r2 --model gpt-4o-mini"
    Settings = MedAgentBenchSettings
    journals: ClassVar = {JOURNAL: JournalKind(EpisodeRow)}
    unit_noun = "episodes"

    async def plan(self, settings: Any, say: Say) -> Plan:
        """See `Benchmark.plan`."""
        return await make_plan(settings, say)

    def finish(self, plan: Plan, run: Run, standing: Standing) -> Findings:
        """Write a results file and a grade file for each trial."""
        basis: GradingContext = plan.context
        conduct = EpisodeCounts(strip_thinking=plan.settings.strip_thinking, max_tokens=plan.settings.max_tokens)
        found = _results(run, basis, conduct, plan.settings.trials, plan.settings.round)
        asked = {unit.key for stage in plan.stages for unit in stage.units()}
        ungraded = sum(one.correct is None and f"{one.item}#{one.trial}" in asked for one in found.items)
        return replace(found, ungraded=ungraded)

    def grade(self, run: Run) -> Findings:
        """Grade a folder by what `run.json` says of its data; of a run that is going on, what is there."""
        with results_of(run) as (folder, _):
            return regrade(folder, Wanted())[0]

    def details(self, run: Run, report: Report, **wanted: Any) -> Details:
        """See `Benchmark.details`; `wanted` says where tasks and facts are, as `medagent grade` has it."""
        from medagent.benchmarks.medagentbench.views.sources import run_details

        return run_details(run, Wanted(**wanted))

    def messages(self, row: EpisodeRow) -> Sequence[ShownMessage]:
        """The conversation: the transcript, or programs and what they printed."""
        return list(conversation(row))

    def ungraded(self, run: Run) -> Sequence[ItemOutcome]:
        """See `Benchmark.ungraded`."""
        rows = run.rows(EpisodeRow)
        types = ((row, row.task_id.partition("_")[0]) for row in rows)
        return [ItemOutcome(item=row.task_id, trial=row.trial, group=kind, status=row.status) for row, kind in types]

    def show(self, run: Run, item: str) -> ItemView:
        """One episode; `item` is a task's id, or `task5_7#2` for another trial."""
        task_id, _, trial = item.partition("#")
        unit = f"{task_id}#{trial or 1}"
        row = next(run.rows(EpisodeRow, units=[unit]), None)
        if row is None:
            raise UserError(f"{run.path}: holds no episode {item}")
        verdict = verdicts_of(run.path, row.trial).get(task_id)
        report = read_report(run.path)
        items = report.items if report is not None else ()
        found = next((one for one in items if (one.item, one.trial) == (task_id, row.trial)), None)
        said = list(conversation(row, requests=True))
        why = [f"why: {found.kind}: {found.reason}"] if found and found.kind else []
        why += [f"because: {found.because}"] if found and found.because else []
        return ItemView(said, [*_outcome(row, verdict), *why, *failure_lines(row)], _deciding_times(run, task_id))


def _deciding_times(run: Run, task_id: str) -> list[str]:
    """When the readings were taken that decide a task; none where the run's facts are not the data set's own."""
    results = results_path(run.path, 1)
    try:
        dataset = grading.task_set(results, None, None)
        grading.check_patients(results, dataset)
        facts = grading.facts(dataset, fhir=None, ehr=None, key=None)
    except (MedagentError, RefsolError):
        return []
    task = next((one for one in grading.items(dataset) if one["id"] == task_id), None)
    found = evaluate_unanswered(task, facts, dataset.constants) if task is not None else None
    return [fact.time for fact in found.because.facts if fact.time] if found is not None else []


def _results(run: Run, basis: GradingContext, conduct: EpisodeCounts, trials: int, round_label: str) -> Findings:
    """Write each trial's results file and `grade.json` beside it, one trial after the other."""
    dataset = basis.dataset
    grader = Grader(grading.items(dataset), basis.facts, base=basis.api_base, constants=dataset.constants)
    graded, files = GradedTrials(conduct), []
    for trial, results, rows in write_trials(run, run.path, dataset, round_label):
        if trial > trials:
            continue  # of an earlier command
        for row in rows:
            conduct.add(row)
        document = graded.add(grader.file(results, {row.task_id: recorded(row) for row in rows}))
        write_grade(grade_path(results), document)
        files += [results.name, grade_path(results).name]
    if not files:
        return Findings(notes=["No episode has ended, so nothing is graded."], ungraded=0)
    return findings(graded, dataset, files=(*files, "episodes.jsonl", "run.json", "report.json"))


def _outcome(row: EpisodeRow, verdict: ItemEntry | None) -> Iterator[str]:
    yield f"status: {row.status}" + (f" ({row.error})" if row.error else "")
    yield f"answer: {row.answer if row.answer is not None else '–'}"
    for write in row.created:
        stored = "stored" if write.resource is not None else f"not stored: {write.refused}"
        yield f"POST {write.url}: {stored}"
    if row.spent.calls:
        yield f"spent: {row.spent.calls} calls, {row.spent.usage.total:,} tokens, {dollars(row.spent.cost)}"
    if verdict is None:
        yield "verdict: none yet"
        return
    failed = "the agent raised an error; " if row.status == FAILED else ""
    yield (
        "verdict: "
        + {True: "right", False: "wrong", None: "not graded"}[verdict.correct]
        + (f" – {failed}{verdict.reason}")
    )
    for check in verdict.checks:
        mark = "✓" if check.passed else "✗"
        yield f"  {mark} {check.name}" + ("" if check.passed else f": expected {check.expected}, got {check.actual}")
