"""Every episode as blocks of a page, from a run's folder or from a results file that anybody made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medagent.benchmarks.base import ending_blocks
from medagent.benchmarks.medagentbench.episode import EpisodeRow
from medagent.benchmarks.medagentbench.findings import BRANCHES
from medagent.benchmarks.medagentbench.published import published_sections
from medagent.benchmarks.medagentbench.results.write import post_history
from medagent.benchmarks.medagentbench.tasks.dataset import Dataset, Task
from medagent.benchmarks.medagentbench.views.chart import chart
from medagent.benchmarks.medagentbench.views.orders import orders_block
from medagent.benchmarks.medagentbench.views.programs import conversation
from medagent.engine.report import REQUESTS
from medagent.reports.page.blocks import (
    AnswerBlock,
    Block,
    ChecksBlock,
    ConversationBlock,
    Details,
    DotsBlock,
    FactsBlock,
    ItemDetail,
    Message,
    RecordBlock,
    TextBlock,
    VerdictsBlock,
)
from refsol.medagentbench import KIND_WORDS, PUBLISHED, Facts, GradedItem, GradeReport, Rate, Verdict
from refsol.medagentbench.history import HistoryError, Post, extract_posts, read_messages
from refsol.medagentbench.verdict import show
from refsol.stats import wilson


@dataclass(frozen=True, slots=True)
class Played:
    """What is known of an episode: its answer, its messages (of a results file the posts alone), its row."""

    answer: Any
    messages: Sequence[Message]
    history: Sequence[Any]
    whole: bool
    """Whether `messages` is the whole transcript."""
    row: EpisodeRow | None = None

    @classmethod
    def of_row(cls, row: EpisodeRow) -> Played:
        """An episode of a run."""
        return cls(row.answer, messages_of(row), post_history(row.transcript), whole=True, row=row)

    @property
    def posts(self) -> tuple[Post, ...]:
        """The posts that count as accepted."""
        try:
            return extract_posts(read_messages(self.history), PUBLISHED.acknowledgement)
        except HistoryError:
            return ()


@dataclass(frozen=True, slots=True)
class Graded:
    """A graded run or file: a report a trial, what was played by task id and trial, and the facts for charts."""

    dataset: Dataset
    reports: Sequence[GradeReport]
    played: Mapping[tuple[str, int], Played]
    facts: Facts | None
    executed: bool = False
    """Whether POSTs were executed, not acknowledged only."""


def details(graded: Graded) -> Details:
    """What a page shows of it."""
    return Details(
        lambda: _items(graded), list(_panels(graded)), {str(kind): words for kind, words in KIND_WORDS.items()}
    )


def messages_of(row: EpisodeRow) -> list[Message]:
    """The conversation; each call's tokens and seconds stand at its message where each message was one call."""
    shown = list(conversation(row, requests=True))
    calls = iter(row.spent.each if len(row.spent.each) == sum(one.role == "agent" for one in shown) else ())
    messages = []
    for turn in shown:
        call = next(calls, None) if turn.role == "agent" else None
        messages.append(
            Message(
                turn.role,
                turn.text,
                turn.reasoning or "",
                None if call is None else (call.prompt, call.completion),
                None if call is None else call.latency,
            )
        )
    return messages


def _items(graded: Graded) -> Iterator[ItemDetail]:
    tasks = {task.id: task for task in graded.dataset.tasks}
    for trial, report in enumerate(graded.reports, 1):
        for item in report.items:
            task, played = tasks.get(item.task_id), graded.played.get((item.task_id, trial))
            failed = [check.name for check in item.verdict.checks if not check.passed]
            row = played.row if played else None
            blocks = list(_blocks(task, item, played, graded)) if task and played else []
            yield ItemDetail(item.task_id, trial, blocks, row, task.instruction if task else "", failed)


def _blocks(task: Task, item: GradedItem, played: Played, graded: Graded) -> Iterator[Block]:
    verdict = item.verdict
    yield TextBlock("Question", task.instruction)
    if task.context:
        yield TextBlock("Context", task.context, folded=True)
    replies = [one.text for one in played.messages[1:] if one.role in ("user", REQUESTS)] if played.whole else None
    if drawn := chart(task, verdict, played.answer, graded.facts, replies, graded.dataset.constants):
        yield drawn
    elif verdict.because is not None and verdict.because.facts:
        yield FactsBlock("What decides", [_fact(one) for one in verdict.because.facts])
    yield _answer(verdict, played)
    if block := orders_block(verdict, played.posts):
        yield block
    if verdict.checks:
        yield ChecksBlock([(one.name, one.passed, one.expected, one.actual) for one in verdict.checks])
    differing = {
        name: other for name, other in item.others.items() if {other.correct, verdict.correct} == {True, False}
    }
    if differing:
        said = [(name, other.correct, other.reason) for name, other in {"official": verdict, **differing}.items()]
        yield VerdictsBlock(said)
    if played.row is not None:
        if played.row.created:
            title = "What the record became" if graded.executed else "What the record would have become"
            writes = [(one.url, one.resource, one.refused or "") for one in played.row.created]
            yield RecordBlock(title, writes)
        yield from ending_blocks(played.row)
    if played.messages:
        decides = [one.time for one in verdict.because.facts if one.time] if verdict.because else []
        title = "Transcript" if played.whole else "POSTs and their replies (the file keeps no other messages)"
        yield ConversationBlock(played.messages, decides, title)


def _answer(verdict: Verdict, played: Played) -> AnswerBlock:
    check = next((one for one in verdict.checks if one.name == "answer"), None)
    accepted = [show(one) for one in verdict.accepted] if check is not None else []
    given = played.answer if isinstance(played.answer, str | None) else show(played.answer)
    return AnswerBlock(given, accepted, None if check is None else check.passed)


def _fact(fact: Any) -> tuple[str, str]:
    value = "none" if fact.value is None else f"{fact.value} {fact.unit or ''}".strip()
    return f"{fact.name} ({fact.role})", f"{value} at {fact.time}" if fact.time else value


def _panels(graded: Graded) -> Iterator[Block]:
    if not graded.reports:
        return
    report = graded.reports[0]
    name = "this run" if len(graded.reports) == 1 else "this run, trial 1"
    lines = [_line(name, report.overall), *(_line(other, rate) for other, rate in report.baselines.items())]
    if graded.dataset.edition:  # whose answer key the rules that it follows were made for
        count = report.overall.graded
        lines.append(("reference (solves all)", count, 1.0, *_ends(count, count)))
    for section in published_sections(graded.dataset):
        lines += [
            (f"{one.name} (published)", one.n, one.value, *_ends(round(one.n * (one.value or 0)), one.n))
            for one in section.lines
        ]
    yield DotsBlock("Success rate, beside others", lines)
    yield DotsBlock("By task type", [_line(kind, rate) for kind, rate in report.by_type.items()], group=True)
    branches = [_line(BRANCHES[name], rate) for name, rate in report.branches.items() if rate.total]
    yield DotsBlock("By what was right to do", branches)
    if report.others:
        rates = {report.rules: report.overall, **report.others}
        yield DotsBlock("Under each set of rules", [_line(name, rate) for name, rate in rates.items() if rate.graded])


def _line(name: str, rate: Rate) -> tuple[str, int, float | None, float | None, float | None]:
    return (name, rate.graded, rate.share, *_ends(rate.right, rate.graded))


def _ends(right: int, n: int) -> tuple[float | None, float | None]:
    bounds = wilson(right, n)
    return (bounds.low, bounds.high) if n else (None, None)
