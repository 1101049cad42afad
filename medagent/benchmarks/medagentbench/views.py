"""The blocks of a report page: for an episode (of a run or of a results file), and for the whole run.

An episode has a chart of its deciding test over time, and the orders that were due beside those that were placed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from medagent.benchmarks.medagentbench._figures import BRANCHES, published_of
from medagent.benchmarks.medagentbench.data import TaskItem, dataset_of, embedded_facts, open_facts
from medagent.benchmarks.medagentbench.settings import MedAgentBenchSettings
from medagent.benchmarks.medagentbench.tasks.dataset import Dataset
from medagent.engine.blocks import (
    AnswerBlock,
    Block,
    ChartBlock,
    ChecksBlock,
    ConversationBlock,
    DotsBlock,
    FactsBlock,
    Field,
    Order,
    OrdersBlock,
    Reading,
    RecordBlock,
    TextBlock,
)
from medagent.engine.report import REQUESTS, Report, TableLine
from medagent.engine.scores import Check, Score
from medagent.fhir_episodes.benchmark import changes_blocks, spoken
from medagent.fhir_episodes.episode import EpisodeRow
from medagent.fhir_episodes.session import post_history
from medagent.reports.published import published_sections
from refsol.errors import FactsError
from refsol.history import HistoryError, Post, extract_posts, read_messages
from refsol.json_values import json_value
from refsol.medagentbench import PUBLISHED, Constants, Fact, Facts, deciding_test
from refsol.medagentbench.clinical import DataError, LabResult, read_measurement
from refsol.medagentbench.matchers import lookup
from refsol.stats import wilson
from refsol.verdict import MISSING, show


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
        writes = [(one.url, one.resource, one.not_stored) for one in row.created]
        yield RecordBlock("Resources that the POSTs created, or would have created", writes)
    yield from changes_blocks(row)
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


_TIME = re.compile(r'"(\d{4}-\d{2}-\d{2}T[^"]*)"')
_MOST = 600
"""The most readings that are drawn: the latest ones, and in addition those that decide."""


def chart(
    task: Any,
    decisive: Sequence[Fact],
    answer: Any,
    facts: Facts | None,
    replies: Sequence[str] | None,
    constants: Constants = PUBLISHED,
) -> Any:
    """The chart of a task's deciding test. None if the task has no such test or there is nothing to draw.

    `decisive` are the facts that decide the verdict; `facts` is the source of all readings. `replies` are the replies
    that the agent got, or None if they were not stored.
    """
    test = deciding_test(task.type, constants)
    if test is None or not decisive or not task.eval_MRN:
        return None
    deciding = {(one.time, one.value) for one in decisive if one.name == test.code and one.time}
    seen = None if replies is None else _times(replies, test.code)
    stored, left_out = _drawn(facts, task.eval_MRN, test.code, {time for time, _ in deciding})
    readings = [
        Reading(
            _milliseconds(one.time),
            one.text,
            one.value,
            decides=(one.text, one.value) in deciding,
            seen=None if seen is None else one.text in seen,
        )
        for one in stored
    ]
    number = _first_number(answer)
    values = [float(one.value) for one in stored if (one.text, one.value) in deciding]
    return ChartBlock(
        title=f"{test.code} of {task.eval_MRN}",
        unit=test.unit,
        readings=readings,
        now=_milliseconds(constants.now),
        start=None if test.start is None else _milliseconds(test.start),
        window=test.window,
        thresholds=test.thresholds,
        mean=sum(values) / len(values) if test.is_mean and values else None,
        answered=None if number == -1 else number,
        denied=number == -1 and bool(deciding),
        note=f"{left_out} earlier readings are not shown." if left_out else "",
    )


def _drawn(facts: Facts | None, mrn: str, code: str, deciding: set[str | None]) -> tuple[list[LabResult], int]:
    """The readings to draw, sorted by time, and the number of those that are left out."""
    readings = []
    try:
        for observation in facts.observations(mrn, code) if facts is not None else ():
            try:
                readings.append(read_measurement(observation, code))
            except DataError:
                continue
    except FactsError:
        return [], 0
    readings.sort(key=lambda one: _milliseconds(one.time))
    shown = [one for place, one in enumerate(readings) if place >= len(readings) - _MOST or one.text in deciding]
    return shown, len(readings) - len(shown)


def _times(replies: Sequence[str], code: str) -> set[str]:
    """The times in those replies that mention the code."""
    return {time for text in replies if f'"{code}"' in text for time in _TIME.findall(text)}


def _milliseconds(time: datetime) -> float:
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000


def _first_number(answer: Any) -> float | None:
    """The first number in an answer (-1 means that there is no reading), or None if it has no number."""
    value = json_value(answer) if isinstance(answer, str) else None
    first = value[0] if isinstance(value, list) and value else value
    if not isinstance(first, int | float) or isinstance(first, bool):
        return None
    return float(first) if abs(first) < 1e9 else None


_STEP = re.compile(r"\[(\d+)\]|([^.\[]+)")
_URL = " url"
_ABSENT = "–"


def orders_block(checks: Sequence[Check], posts: Sequence[Post]) -> OrdersBlock | None:
    """The orders of an episode. None if no order was due and none was placed. `posts` are the accepted posts."""
    due = list(_due(checks))
    orders = [_due_order(checks, posts[place] if place < len(posts) else None) for place, checks in enumerate(due)]
    orders += [
        Order(_resource(post), (), post.payload, is_placed=True, is_due=False, others=list(_leaves(post.payload)))
        for post in posts[len(due) :]
    ]
    return OrdersBlock(orders) if orders else None


def _due(checks: Sequence[Check]) -> Iterator[list[Check]]:
    """The checks of each order. The first check of an order is that of its URL."""
    current: list[Check] = []
    for check in checks:
        if check.name.endswith(_URL):
            if current:
                yield current
            current = [check]
        elif current and check.name.startswith(current[0].name.removesuffix(_URL) + " "):
            current.append(check)
    if current:
        yield current


def _due_order(checks: Sequence[Check], post: Post | None) -> Order:
    resource = checks[0].name.removesuffix(_URL)
    payload = MISSING if post is None else post.payload
    fields, looked_at = [], []
    for check in checks:
        name = check.name.removeprefix(f"{resource} ")
        if name == "url":
            placed = _ABSENT if post is None else post.url
            fields.append(Field("POST", _plain(check.expected), placed, check.passed))
            continue
        looked_at.append(name)
        fields += _fields(name, check, lookup(payload, _path(name)))
    others = [] if post is None else [(path, text) for path, text in _leaves(payload) if not _under(path, looked_at)]
    return Order(resource, fields, None if post is None else post.payload, post is not None, True, others)


def _fields(name: str, check: Check, placed: Any) -> Iterator[Field]:
    """The field of a check. If an object differs, a field for each of its leaves."""
    expected = json_value(check.expected)
    if not check.passed and isinstance(expected, dict) and isinstance(placed, dict):
        required, placed_leaves = dict(_leaves(expected)), dict(_leaves(placed))
        for leaf in dict.fromkeys([*required, *placed_leaves]):
            one, other = required.get(leaf, _ABSENT), placed_leaves.get(leaf, _ABSENT)
            yield Field(f"{name}.{leaf}", one, other, one == other)
        return
    yield Field(name, _plain(check.expected), _ABSENT if placed is MISSING else _text(placed), check.passed)


def _path(name: str) -> tuple[str | int, ...]:
    return tuple(int(number) if number else step for number, step in _STEP.findall(name))


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Each leaf of a JSON value with its path. Parts nested deeper than 12 levels are shown as text."""
    if isinstance(value, dict) and value and path.count(".") < 12:
        for name, inner in value.items():
            yield from _leaves(inner, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list) and value and path.count("[") < 12:
        for place, inner in enumerate(value):
            yield from _leaves(inner, f"{path}[{place}]")
    else:
        yield path or "(whole)", _text(value)


def _under(path: str, names: Sequence[str]) -> bool:
    return any(path == name or path.startswith((f"{name}.", f"{name}[")) for name in names)


def _resource(post: Post) -> str:
    kind = post.payload.get("resourceType") if isinstance(post.payload, dict) else None
    return kind if isinstance(kind, str) else "POST"


def _plain(expected: str) -> str:
    """The expected value. If it is a JSON string, its text without quotes."""
    value = json_value(expected)
    return value if isinstance(value, str) else expected


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):
        return "a value that cannot be shown"
