"""`medagent judge check`: a panel is asked about cases whose label is known, as a run of its own.

So it continues, is shown and compared as every run. Its figure is the agreement; a judge may be trusted if the lower
end of the 95 % interval reaches TRUSTED.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from medagent.agents.calls import Call
from medagent.benchmarks.base import Benchmark, find
from medagent.core.errors import UserError
from medagent.core.scrub import safe_name
from medagent.engine.journals import JournalKind, Run
from medagent.engine.plan import JOURNAL, Plan, Stage
from medagent.engine.report import DataRef, ItemOutcome, ShownMessage, TableLine, TableSection
from medagent.engine.run import Findings, Say, read_report
from medagent.engine.settings import RunSettings
from medagent.judging.calls import call_job
from medagent.judging.judging import Judging
from medagent.judging.panel import Panel, PanelSettings
from medagent.judging.rows import ExchangeRow
from medagent.judging.rubric import Case, JudgedBenchmark, Rubric
from medagent.models.base import Message
from refsol.stats import wilson

TRUSTED = 0.9


def judged_benchmark(benchmark: Benchmark) -> JudgedBenchmark:
    """The same as a judged one. Raises UserError if its answers are not judged."""
    if not isinstance(benchmark, JudgedBenchmark):
        raise UserError(f"{benchmark.name}: its answers are not judged by models")
    return benchmark


class JudgeCheck(Benchmark):
    """Judges and cases whose label is known."""

    name = "judge-check"
    reference = "medagent.benchmarks.judge_check:JudgeCheck"
    journals: ClassVar[Mapping[str, JournalKind]] = {JOURNAL: JournalKind(ExchangeRow, "judge")}
    unit_noun = "cases"

    async def plan(self, settings: Any, say: Say) -> Plan:
        """It has a command of its own."""
        raise UserError("a judge is checked by `medagent judge check BENCHMARK --judge NAME`")

    def messages(self, row: ExchangeRow) -> Sequence[ShownMessage]:
        """What the judge was asked, and what it said."""
        said = [] if row.reply is None else [ShownMessage("judge", row.reply, row.reasoning)]
        return [ShownMessage("prompt", row.message), *said]

    def grade(self, run: Run) -> Findings:
        """The agreement of each judge, by kind of case."""
        rubric = judged_benchmark(find(str(run.settings["benchmark"]))).rubric
        panel = Judging(run.path, rubric).panels()[-1]
        cases = {case.id: case for case in rubric.cases(panel.prompt)}
        rows = list(run.rows(ExchangeRow))
        items = [_outcome(row, cases[row.unit.removeprefix(f"{row.model}/")], rubric, panel) for row in rows]
        by_judge = {judge: [one for one in items if one.item.startswith(f"{judge}/")] for judge in panel.names}
        return Findings(
            table=[_section(judge, found) for judge, found in by_judge.items()],
            overall=_line("all", items),
            items=items,
            unusable="; ".join(_faults(by_judge)),
            figure="agreement",
            count="cases",
        )


def check_plan(benchmark: JudgedBenchmark, settings: PanelSettings, run: RunSettings) -> Plan:
    """The plan that puts all cases of a benchmark to a panel. Raises UserError."""
    rubric = benchmark.rubric
    panel = settings.panel(rubric, run)
    cases = rubric.cases(panel.prompt)
    if not cases:
        raise UserError(f"{benchmark.name}: has no cases whose label is known")
    calls = [
        Call(f"{judge}/{case.id}", case.query.text, judge, before=_before(case))
        for judge in panel.names
        for case in cases
    ]
    folder = run.run_folder(_check_name(benchmark.name), "+".join(panel.names))
    return Plan(
        settings=run,
        folder=folder,
        data=DataRef(name=f"{benchmark.name} judge cases"),
        stages=(Stage(call_job(panel, run.concurrency), lambda: calls, title=f"Checking {', '.join(panel.names)}"),),
        decides={
            "benchmark": benchmark.reference or benchmark.name,
            "judge": panel.names,
            "judge-prompt-digest": panel.prompt.digest,
        },
        command="medagent judge check",
        repeat="the same command",
        prepare=lambda: Judging(folder, rubric).add(panel),
    )


def checked_judges(results: Path, benchmark: str, panel: Panel[Any]) -> Iterator[str]:
    """What the checks in a results folder say of these judges under the same prompt."""
    for judge in panel.names:
        for folder in sorted(results.glob(f"{_check_name(benchmark)}_*")):
            report = read_report(folder) if folder.name.endswith(safe_name(f"_{judge}")) else None
            if report and report.overall and report.settings.get("judge-prompt-digest") == panel.prompt.digest:
                value, trusted = report.overall.value or 0.0, not report.unusable
                words = "may be trusted" if trusted else "is not to be trusted alone"
                yield f"judge {judge} {words}: agreed on {value:.1%} of {report.overall.n} known cases ({folder})"


def _before(case: Case) -> tuple[Message, ...]:
    return (Message("system", case.query.system),) if case.query.system else ()


def _check_name(benchmark: str) -> str:
    return f"{benchmark}-check"


def _outcome(row: ExchangeRow, case: Case, rubric: Rubric[Any], panel: Panel[Any]) -> ItemOutcome:
    label = None if row.reply is None else rubric.read(row.reply, case.query.rule or rubric.known_rule(panel.rule))
    return ItemOutcome(
        item=row.unit,
        group=case.kind,
        status=row.status,
        correct=None if row.reply is None else label in case.accepted,
        reason=f"said {label or 'no label'}, and it is {' or '.join(case.accepted)}",
        because=case.answer,
    )


def _section(judge: str, found: Sequence[ItemOutcome]) -> TableSection:
    kinds = list(dict.fromkeys(one.group for one in found))
    lines = [_line(kind, [one for one in found if one.group == kind]) for kind in kinds]
    return TableSection(lines=(_line("all kinds", found), *lines), title=f"Judge {judge}", name="kind")


def _line(name: str, found: Sequence[ItemOutcome]) -> TableLine:
    verdicts = [one.correct for one in found if one.correct is not None]
    bounds = wilson(sum(verdicts), len(verdicts))
    value = sum(verdicts) / len(verdicts) if verdicts else None
    return TableLine(name=name, n=len(verdicts), value=value, interval=(bounds.low, bounds.high))


def _faults(by_judge: Mapping[str, Sequence[ItemOutcome]]) -> Iterator[str]:
    """The judges that may not be trusted, and the kinds they get wrong."""
    for judge, found in by_judge.items():
        line = _line(judge, found)
        if line.interval and line.interval[0] < TRUSTED:
            wrong = Counter(one.group for one in found if one.correct is False)
            kinds = ", ".join(f"{kind} ({n})" for kind, n in wrong.most_common(5))
            yield (
                f"judge {judge} is not to be trusted alone: the interval of its agreement begins at "
                f"{line.interval[0]:.1%}, below {TRUSTED:.0%}; most often wrong: {kinds or 'nothing'}"
            )
