"""The blocks of a report page: for an episode (of a run or of a results file), and for the whole run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from medagent.benchmarks.medagentbench._figures import BRANCHES
from medagent.benchmarks.medagentbench._published import published_of
from medagent.benchmarks.medagentbench.facts import embedded_facts, open_facts
from medagent.benchmarks.medagentbench.items import TaskItem, dataset_of
from medagent.benchmarks.medagentbench.settings import MedAgentBenchSettings
from medagent.benchmarks.medagentbench.tasks.dataset import Dataset
from medagent.benchmarks.medagentbench.views._chart import chart
from medagent.benchmarks.medagentbench.views._orders import orders_block
from medagent.engine.blocks import (
    AnswerBlock,
    Block,
    ChecksBlock,
    ConversationBlock,
    DotsBlock,
    FactsBlock,
    RecordBlock,
    TextBlock,
)
from medagent.engine.report import REQUESTS, Report, TableLine
from medagent.engine.scores import Score
from medagent.fhir_episodes.benchmark import spoken
from medagent.fhir_episodes.episode import EpisodeRow
from medagent.fhir_episodes.history import post_history
from medagent.reports.published import published_sections
from refsol.history import HistoryError, Post, extract_posts, read_messages
from refsol.medagentbench import PUBLISHED, Fact, Facts
from refsol.stats import wilson
from refsol.verdict import show


def episode_blocks(item: TaskItem, row: EpisodeRow, score: Score | None) -> Iterator[Block]:
    """The blocks of one episode."""
    whole = bool(row.transcript) and row.transcript[0].role == "user"
    facts = [Fact(**one) for one in score.details.get("facts", [])] if score else []
    yield TextBlock("Question", item.question)
    if item.context:
        yield TextBlock("Context", item.context, folded=True)
    messages = spoken(row)
    replies = [one.text for one in messages[1:] if one.role in ("user", REQUESTS)] if whole else None
    if drawn := chart(item.stored, facts, row.answer, _readings(item.source), replies, item.dataset.constants):
        yield drawn
    elif facts:
        yield FactsBlock("What decides", [_fact(one) for one in facts])
    if score is not None:
        yield _answer(row, score)
        if block := orders_block(score.checks, _posts(row)):
            yield block
        if score.checks:
            yield ChecksBlock([(one.name, one.passed, one.expected, one.actual) for one in score.checks])
    if row.created:
        writes = [(one.url, one.resource, one.refused or "") for one in row.created]
        yield RecordBlock("Resources that the POSTs created, or would have created", writes)
    if row.transcript:
        title = "Transcript" if whole else "POSTs and their replies (the file has no other messages)"
        yield ConversationBlock(messages, [one.time for one in facts if one.time], title)


def run_panels(report: Report, dataset: Dataset) -> Iterator[Block]:
    """The rates of a run compared with others, by type, and by what was right to do."""
    if not report.items:
        return
    lines = {line.name: line for section in report.table for line in section.lines}
    overall = lines["overall"]
    name = "this run" if all(item.trial == 1 for item in report.items) else "this run, trial 1"
    first = [_line(name, overall)]
    first += [
        _line(other.removeprefix("baseline "), line) for other, line in lines.items() if other.startswith("baseline ")
    ]
    if dataset.bundled:  # only here is the reference agent known to solve all tasks
        first.append(("reference (solves all)", overall.n, 1.0, *_ends(overall.n, overall.n)))
    for section in published_sections(published_of(dataset)):
        first += [
            (f"{one.name} (published)", one.n, one.value, *_ends(round(one.n * (one.value or 0)), one.n))
            for one in section.lines
        ]
    yield DotsBlock("Success rate, compared with others", first)
    types = {item.group for item in report.items}
    yield DotsBlock("By task type", [_line(kind, line) for kind, line in lines.items() if kind in types], group=True)
    branches = [_line(words, lines[words]) for words in BRANCHES.values() if words in lines and lines[words].n]
    yield DotsBlock("By what was right to do", branches)


@lru_cache(maxsize=4)
def _readings(source: MedAgentBenchSettings) -> Facts:
    """A source of all readings of the patients. An answer key would have only the deciding ones."""
    dataset = dataset_of(source)
    if source.fhir or source.ehr or not dataset.bundled:
        return open_facts(source, dataset).facts
    from medagent.fhir_data.embedded import bundled_file

    return embedded_facts(bundled_file().path)


def _answer(row: EpisodeRow, score: Score) -> AnswerBlock:
    check = next((one for one in score.checks if one.name == "answer"), None)
    accepted = score.details["accepted"] if check is not None else []
    answer: Any = row.answer
    text = answer if isinstance(answer, str | None) else show(answer)
    return AnswerBlock(text, accepted, None if check is None else check.passed)


def _posts(row: EpisodeRow) -> Sequence[Post]:
    """The accepted posts."""
    try:
        return extract_posts(read_messages(post_history(row.transcript)), PUBLISHED.acknowledgement)
    except HistoryError:
        return ()


def _fact(fact: Fact) -> tuple[str, str]:
    value = "none" if fact.value is None else f"{fact.value} {fact.unit or ''}".strip()
    return f"{fact.name} ({fact.role})", f"{value} at {fact.time}" if fact.time else value


def _line(name: str, line: TableLine) -> tuple[str, int, float | None, float | None, float | None]:
    low, high = line.interval or (None, None)
    return name, line.n, line.value, low, high


def _ends(right: int, n: int) -> tuple[float | None, float | None]:
    bounds = wilson(right, n)
    return (bounds.low, bounds.high) if n else (None, None)
