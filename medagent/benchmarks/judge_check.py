"""`medagent judge check`: a panel labels cases whose label is known.

A check is a run, so you can continue, show and compare it like any run. Its score is the agreement with the known
labels. A judge may be trusted if the lower end of the 95% interval is at least `TRUSTED`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medagent.agents.calls import Call
from medagent.benchmarks.base import find, names
from medagent.core.errors import UserError
from medagent.core.scrub import safe_name
from medagent.engine.benchmark import Benchmark, Say
from medagent.engine.folder import Run
from medagent.engine.plan import Plan, Stage
from medagent.engine.report import DataRef, ShownMessage, TableSection, read_report
from medagent.engine.scores import Grader, Item, Metrics, Score, Scored, mean_line
from medagent.engine.settings import RunSettings
from medagent.judging.benchmark import JudgedBenchmark
from medagent.judging.calls import call_job
from medagent.judging.judging import Judging
from medagent.judging.panel import Panel, PanelSettings
from medagent.judging.rows import ExchangeRow
from medagent.judging.rubric import Case
from medagent.models.base import Message

TRUSTED = 0.9


def judged_benchmark(benchmark: Benchmark[Any, Any]) -> JudgedBenchmark[Any, Any]:
    """The same benchmark. Raises UserError if its answers are not judged by models."""
    if not isinstance(benchmark, JudgedBenchmark):
        raise UserError(f"{benchmark.name}: its answers are not judged by models; name another one, such as simpleqa")
    return benchmark


@dataclass(frozen=True, slots=True)
class CheckedPanel:
    """A benchmark with known cases, and the panel that labels them."""

    benchmark: JudgedBenchmark[Any, Any]
    panel: Panel[Any]


@dataclass(frozen=True, kw_only=True)
class CaseItem(Item):
    """A case, and the judge that labels it."""

    case: Case
    judge: str


class JudgeCheck(Benchmark[RunSettings, ExchangeRow]):
    """Checks judges with cases whose label is known. `check` is None to read the check of a run's folder."""

    name = "judge-check"
    Settings = RunSettings
    row = ExchangeRow
    role = "judge"
    unit_noun = "cases"

    def __init__(self, check: CheckedPanel | None = None) -> None:
        self._check = check

    def source(self, run: Run, options: Mapping[str, Any]) -> CheckedPanel:
        """See `Benchmark.source`. Raises UserError if the benchmark is not installed: a folder's code is not run."""
        if self._check is not None:
            return self._check
        name = str(run.settings["benchmark"])
        if name not in names():
            raise UserError(
                f"{run.path}: is a check of judges for {name}, which is not installed; run the check again to see its "
                "results"
            )
        benchmark = judged_benchmark(find(name))
        return CheckedPanel(benchmark, Judging(run.path, benchmark.rubric).panels()[-1])

    def items(self, source: Any) -> Sequence[CaseItem]:
        check = self._of(source)
        return [
            CaseItem(id=f"{judge}/{case.id}", group=case.kind, question=case.answer, case=case, judge=judge)
            for judge in check.panel.names
            for case in check.benchmark.rubric.cases(check.panel.prompt)
        ]

    def data(self, source: Any) -> DataRef:
        return DataRef(name=f"{self._of(source).benchmark.name} judge cases")

    def grader(self, source: Any, rules: str) -> Grader[ExchangeRow]:
        return CaseGrader(self._of(source))

    async def plan(self, settings: RunSettings, say: Say) -> Plan:
        """Raises UserError, because checks are made with a separate command."""
        raise UserError("to check a judge: `medagent judge check BENCHMARK --judge NAME`")

    def messages(self, row: ExchangeRow) -> Sequence[ShownMessage]:
        """The prompt of the judge and its reply."""
        reply = [] if row.reply is None else [ShownMessage("judge", row.reply, row.reasoning)]
        return [ShownMessage("prompt", row.message), *reply]

    def _of(self, source: Any) -> CheckedPanel:
        check = source if isinstance(source, CheckedPanel) else self._check
        assert check is not None
        return check


class CaseGrader(Grader[ExchangeRow]):
    """Grades a judge's label: it is right if the case accepts it."""

    def __init__(self, check: CheckedPanel) -> None:
        self._check = check

    def score(self, item: CaseItem, row: ExchangeRow, judged: Any = None) -> Score:
        rubric, panel = self._check.benchmark.rubric, self._check.panel
        rule = item.case.query.rule or rubric.known_rule(panel.rule)
        label = None if row.reply is None else rubric.read(row.reply, rule)
        return Score(
            correct=None if row.reply is None else label in item.case.accepted,
            reason=f"labelled {label or 'nothing'}; the known label is {' or '.join(item.case.accepted)}",
            because=item.case.answer,
        )

    def metrics(self, scores: Sequence[Scored]) -> Metrics:
        """The agreement of each judge, by kind of case."""
        by_judge = {
            judge: [score for score in scores if score.item.judge == judge] for judge in self._check.panel.names
        }
        return Metrics(
            table=[_section(judge, members) for judge, members in by_judge.items()],
            overall=mean_line("all", scores),
            unusable="; ".join(_faults(by_judge)),
            figure="agreement",
            count="cases",
        )


def check_plan(
    benchmark: JudgedBenchmark[Any, Any], settings: PanelSettings, run: RunSettings
) -> tuple[JudgeCheck, Plan]:
    """A check of a panel on all cases of a benchmark, and its plan. Raises UserError."""
    rubric = benchmark.rubric
    panel = settings.panel(rubric, run)
    cases = rubric.cases(panel.prompt)
    if not cases:
        raise UserError(f"{benchmark.name}: provides no cases with known labels, so judges cannot be checked")
    calls = [
        Call(f"{judge}/{case.id}", case.query.text, judge, before=_before(case))
        for judge in panel.names
        for case in cases
    ]
    folder = run.run_folder(_check_name(benchmark.name), "+".join(panel.names))
    check = JudgeCheck(CheckedPanel(benchmark, panel))
    plan = Plan(
        settings=run,
        folder=folder,
        data=check.data(run),
        items=check.items(run),
        stages=(Stage(call_job(panel, run.concurrency), lambda: calls, title=f"Checking {', '.join(panel.names)}"),),
        decides={
            "benchmark": benchmark.reference or benchmark.name,
            "judge": panel.names,
            "judge-prompt-digest": panel.prompt.digest,
        },
        command="medagent judge check",
        repeat="the last command",
        prepare=lambda: Judging(folder, rubric).add(panel),
    )
    return check, plan


def checked_judges(results: Path, benchmark: str, panel: Panel[Any]) -> Iterator[str]:
    """The results of earlier checks of these judges with the same prompt, as texts."""
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


def _section(judge: str, scores: Sequence[Scored]) -> TableSection:
    kinds = dict.fromkeys(score.item.group for score in scores)
    lines = [mean_line(kind, [score for score in scores if score.item.group == kind]) for kind in kinds]
    return TableSection(lines=(mean_line("all kinds", scores), *lines), title=f"Judge {judge}", name="kind")


def _faults(by_judge: Mapping[str, Sequence[Scored]]) -> Iterator[str]:
    """The judges that may not be trusted, with the kinds of cases that they label wrong, as texts."""
    for judge, scores in by_judge.items():
        line = mean_line(judge, scores)
        if line.interval and line.interval[0] < TRUSTED:
            wrong = Counter(score.item.group for score in scores if score.correct is False)
            kinds = ", ".join(f"{kind} ({n})" for kind, n in wrong.most_common(5))
            yield (
                f"judge {judge} is not to be trusted alone: the interval of its agreement begins at "
                f"{line.interval[0]:.1%}, below {TRUSTED:.0%}; most often wrong: {kinds or 'nothing'}"
            )
