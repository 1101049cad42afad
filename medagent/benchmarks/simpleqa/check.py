"""`medagent simpleqa check`: a judge is given cases whose label is known, as a run of its own.

So it continues, is shown and compared as every run. Its figure is the agreement; a judge may be trusted where the lower
end of the 95 % interval reaches TRUSTED.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from medagent.agents.calls import Call, CallJob
from medagent.agents.choice import AgentChoice, ModelChoice, keyed
from medagent.benchmarks.base import Benchmark
from medagent.benchmarks.simpleqa.judging import Judging
from medagent.benchmarks.simpleqa.rows import ExchangeRow
from medagent.benchmarks.simpleqa.settings import published_place
from medagent.core.errors import UserError
from medagent.core.scrub import safe_name
from medagent.engine.journals import JournalKind, Run
from medagent.engine.plan import JOURNAL, Plan, Stage
from medagent.engine.report import DataRef, ItemOutcome, ShownMessage, TableLine, TableSection
from medagent.engine.run import Findings, Say, read_report
from medagent.engine.settings import RunSettings
from medagent.models.base import Message
from refsol.simpleqa.cases import JudgeCase, Side, judge_cases
from refsol.simpleqa.prompts import JudgePrompt, judge_prompt
from refsol.simpleqa.score import label_of
from refsol.stats import wilson

TRUSTED = 0.9
NAME = "simpleqa-check"


class JudgeCheck(Benchmark):
    """Judges and cases whose label is known."""

    name = NAME
    journals: ClassVar[Mapping[str, JournalKind]] = {JOURNAL: JournalKind(ExchangeRow, "judge")}
    unit_noun = "cases"

    async def plan(self, settings: Any, say: Say) -> Plan:
        """It has a command of its own."""
        raise UserError("a judge is checked by `medagent simpleqa check --judge NAME`")

    def messages(self, row: ExchangeRow) -> Sequence[ShownMessage]:
        """What the judge was asked, and what it said."""
        said = [] if row.reply is None else [ShownMessage("judge", row.reply, row.reasoning)]
        return [ShownMessage("prompt", row.message), *said]

    def grade(self, run: Run) -> Findings:
        """The agreement of each judge, by kind of case."""
        cases = {case.id: case for case in judge_cases()}
        side: Side = {"bundled": "bundled", "published": "published"}.get(str(run.settings["judge-side"]), "other")  # type: ignore[assignment]  # of these three
        rows = list(run.rows(ExchangeRow))
        items = [_outcome(row, cases[row.unit.rpartition("/")[2]], side) for row in rows]
        by_judge = {judge: [one for one in items if one.item.startswith(f"{judge}/")] for judge in _judges(rows)}
        faults = list(_faults(by_judge))
        return Findings(
            table=[_section(judge, found) for judge, found in by_judge.items()],
            overall=_line("all", items),
            items=items,
            notes=[f"the prompt's side on a part of the answer: {side}"],
            unusable="; ".join(faults),
            figure="agreement",
            count="cases",
        )


def check_plan(judging: Judging, settings: RunSettings) -> Plan:
    """The plan that puts all cases to the judges of a judging. Raises UserError."""
    judges = keyed(judging.judges)
    who = {judge.name: AgentChoice(ModelChoice.of(judge)) for judge in judges}
    before = (Message("system", judging.prompt.system),) if judging.prompt.system else ()
    calls = [
        Call(f"{judge}/{case.id}", judging.prompt.fill(case.question, case.gold, case.reply), judge, before=before)
        for judge in who
        for case in judge_cases()
    ]
    prompt, job = judging.prompt, CallJob(who, settings.concurrency, ExchangeRow)
    return Plan(
        settings=settings,
        folder=settings.run_folder(NAME, "+".join(who)),
        data=DataRef(name="SimpleQA judge cases"),
        stages=(Stage(job, lambda: calls, title=f"Checking {', '.join(who)}"),),
        decides={"judge": list(who), "judge-side": side_of(prompt), "judge-prompt-digest": prompt.digest},
        command="medagent simpleqa check",
        repeat="the same command",
    )


def side_of(prompt: JudgePrompt) -> Side:
    """Whose criteria a prompt states."""
    if prompt.digest == judge_prompt().digest:
        return "bundled"
    published = published_place()
    return "published" if published.is_file() and prompt.digest == judge_prompt(published).digest else "other"


def checked_judges(results: Path, judges: Sequence[str], prompt: JudgePrompt) -> Iterator[str]:
    """What the checks in a results folder say of these judges under the same prompt."""
    for judge in judges:
        for folder in sorted(results.glob(f"{NAME}_*")):
            report = read_report(folder) if folder.name.endswith(safe_name(f"_{judge}")) else None
            if report and report.overall and report.settings.get("judge-prompt-digest") == prompt.digest:
                value, trusted = report.overall.value or 0.0, not report.unusable
                words = "may be trusted" if trusted else "is not to be trusted alone"
                yield f"judge {judge} {words}: agreed on {value:.1%} of {report.overall.n} known cases ({folder})"


def _judges(rows: Sequence[ExchangeRow]) -> list[str]:
    return list(dict.fromkeys(row.model for row in rows))


def _outcome(row: ExchangeRow, case: JudgeCase, side: Side) -> ItemOutcome:
    label = None if row.reply is None else label_of(row.reply, "robust")
    correct = None if row.reply is None else case.accepts(label, side)
    return ItemOutcome(
        item=row.unit,
        group=case.kind,
        status=row.status,
        correct=correct,
        reason=f"said {label or 'no label'}, and it is {case.label}",
        because=case.reply,
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
        wrong: dict[str, int] = {}
        for one in found:
            if one.correct is False:
                wrong[one.group] = wrong.get(one.group, 0) + 1
        if line.interval and line.interval[0] < TRUSTED:
            kinds = ", ".join(f"{kind} ({n})" for kind, n in sorted(wrong.items(), key=lambda pair: -pair[1])[:5])
            yield (
                f"judge {judge} is not to be trusted alone: the interval of its agreement begins at "
                f"{line.interval[0]:.1%}, below {TRUSTED:.0%}; most often wrong: {kinds or 'nothing'}"
            )
