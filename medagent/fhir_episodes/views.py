"""The blocks of a report page for one episode: what decided, over time, and the due orders beside the placed ones."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from medagent.engine.blocks import (
    AnswerBlock,
    Block,
    ChartBlock,
    ChecksBlock,
    ConversationBlock,
    FactsBlock,
    Field,
    Order,
    OrdersBlock,
    Reading,
    RecordBlock,
    TextBlock,
)
from medagent.engine.report import REQUESTS
from medagent.engine.scores import Check, Score
from medagent.fhir_episodes.benchmark import changes_blocks, spoken
from medagent.fhir_episodes.episode import EpisodeRow
from medagent.fhir_episodes.task import FhirItem
from refsol.clinical.evidence import Deciding
from refsol.clinical.orders import lookup
from refsol.clinical.sources import Resource, Source
from refsol.errors import FactsError
from refsol.history import Post
from refsol.json_values import as_object, json_value
from refsol.verdict import MISSING, Fact, show


@dataclass(frozen=True, slots=True)
class Shown:
    """What the picture of an episode shows: the deciding test, the patient, the time of the task, and the source of all
    readings.
    """

    test: Deciding
    patient: str
    now: datetime
    facts: Source


def episode_blocks(
    item: FhirItem, row: EpisodeRow, score: Score | None, shown: Callable[[], Shown | None]
) -> Iterator[Block]:
    """The blocks of one episode. `shown` is called if facts decide it."""
    whole = bool(row.transcript) and row.transcript[0].role == "user"
    facts = [Fact(**fact) for fact in score.details.get("facts", [])] if score else []
    yield TextBlock("Question", item.question)
    if item.context:
        yield TextBlock("Context", item.context, folded=True)
    messages = spoken(row)
    replies = [message.text for message in messages[1:] if message.role in ("user", REQUESTS)] if whole else None
    test = shown() if facts else None
    if test is not None and (drawn := chart(test, facts, row.answer, replies)):
        yield drawn
    elif facts:
        yield FactsBlock("What decides", [_fact(fact) for fact in facts])
    if score is not None:
        yield _answer(row, score)
        if block := orders_block(score.checks, row.posts):
            yield block
        if score.checks:
            yield ChecksBlock([(check.name, check.passed, check.expected, check.actual) for check in score.checks])
    if row.created:
        writes = [(created.url, created.resource, created.not_stored) for created in row.created]
        yield RecordBlock("Resources that the POSTs created, or would have created", writes)
    yield from changes_blocks(row)
    yield from _injected_blocks(item, row, score)
    if row.transcript:
        injected = [item.injected.reference] if item.injected else []
        title = "Transcript" if whole else "POSTs and their replies (the file contains no other messages)"
        yield ConversationBlock(messages, [fact.time for fact in facts if fact.time], title, injected)


def _injected_blocks(item: FhirItem, row: EpisodeRow, score: Score | None) -> Iterator[Block]:
    """The instruction in the item's chart: where it stood, and whether the agent had read and obeyed it."""
    if (injected := item.injected) is not None:
        words = {True: "yes", False: "no", None: "not graded"}
        harmed = None if score is None else score.harmed
        facts = [("text", injected.text), ("place", injected.place), ("form", injected.form)]
        outcome = [("read by the agent", words[injected.was_read(row.history)]), ("harmed", words[harmed])]
        yield FactsBlock("Injected instruction", [*facts, *outcome])


def _answer(row: EpisodeRow, score: Score) -> AnswerBlock:
    check = next((check for check in score.checks if check.name == "answer"), None)
    accepted = score.details["accepted"] if check is not None else []
    answer: Any = row.answer
    text = answer if isinstance(answer, str | None) else show(answer)
    return AnswerBlock(text, accepted, None if check is None else check.passed)


def _fact(fact: Fact) -> tuple[str, str]:
    value = "none" if fact.value is None else f"{fact.value} {fact.unit or ''}".strip()
    return f"{fact.name} ({fact.role})", f"{value} at {fact.time}" if fact.time else value


_TIME = re.compile(r'"(\d{4}-\d{2}-\d{2}T[^"]*)"')
_MOST = 600
"""The most readings that are drawn: the latest ones, and in addition those that decide."""


def chart(shown: Shown, decisive: Sequence[Fact], answer: Any, replies: Sequence[str] | None) -> ChartBlock:
    """The chart of a task's deciding test.

    `decisive` are the facts that decide the verdict. `replies` are the replies that the agent got, or None if they were
    not stored.
    """
    test, code = shown.test, shown.test.lab.code
    used = {(fact.time, fact.value) for fact in decisive if fact.name == code and fact.time}
    seen = None if replies is None else _times(replies, code)
    stored, left_out = _drawn(shown.facts, shown.patient, code, {time for time, _ in used})
    readings = [
        Reading(
            _milliseconds(time),
            text,
            value,
            decides=(text, value) in used,
            seen=None if seen is None else text in seen,
        )
        for time, text, value in stored
    ]
    number = _first_number(answer)
    values = [float(value) for _, text, value in stored if (text, value) in used]
    return ChartBlock(
        title=f"{test.lab.name} ({code}) of {shown.patient}",
        unit=test.lab.unit,
        readings=readings,
        now=_milliseconds(shown.now),
        start=None if test.start is None else _milliseconds(test.start),
        window=test.window,
        thresholds=test.limits,
        mean=sum(values) / len(values) if test.is_mean and values else None,
        answered=None if number == -1 else number,
        denied=number == -1 and bool(used),
        note=f"{left_out} earlier readings are not shown." if left_out else "",
    )


_Stored = tuple[datetime, str, int | float]
"""A reading: its time, the time as stored, and its value."""


def _drawn(facts: Source, mrn: str, code: str, used: set[str | None]) -> tuple[list[_Stored], int]:
    """The readings to draw, sorted by time, and the number of those that are left out."""
    try:
        resources = facts.search("Observation", patient=mrn, code=code)
    except FactsError:
        return [], 0
    readings = sorted(
        (reading for reading in map(_reading, resources) if reading is not None),
        key=lambda reading: _milliseconds(reading[0]),
    )
    shown = [reading for place, reading in enumerate(readings) if place >= len(readings) - _MOST or reading[1] in used]
    return shown, len(readings) - len(shown)


def _reading(resource: Resource) -> _Stored | None:
    """A reading with a time and a number; None if it lacks one."""
    text, value = resource.get("effectiveDateTime"), as_object(resource.get("valueQuantity")).get("value")
    try:
        return (datetime.fromisoformat(str(text)), str(text), value) if isinstance(value, int | float) else None
    except ValueError:
        return None


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


_URL, _TYPE = " url", " resourceType"
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
    """The checks of each order. The first check of an order is that of its URL, or else of its type."""
    current: list[Check] = []
    for check in checks:
        after_url = bool(current) and current[-1].name.endswith(_URL)
        if check.name.endswith(_URL) or (check.name.endswith(_TYPE) and not after_url):
            if current:
                yield current
            current = [check]
        elif current and check.name.startswith(_kind(current[0]) + " "):
            current.append(check)
    if current:
        yield current


def _kind(first: Check) -> str:
    return first.name.rpartition(" ")[0]


def _due_order(checks: Sequence[Check], post: Post | None) -> Order:
    resource = _kind(checks[0])
    payload = MISSING if post is None else post.payload
    fields, compared = [], []
    for check in checks:
        name = check.name.removeprefix(f"{resource} ")
        if name == "url":
            placed = _ABSENT if post is None else post.url
            fields.append(Field("POST", _plain(check.expected), placed, check.passed))
            continue
        compared.append(name)
        fields += _fields(name, check, lookup(payload, name))
    others = [] if post is None else [(path, text) for path, text in _leaves(payload) if not _under(path, compared)]
    return Order(resource, fields, None if post is None else post.payload, post is not None, True, others)


def _fields(name: str, check: Check, placed: Any) -> Iterator[Field]:
    """The field of a check. If an object differs, a field for each of its leaves."""
    expected = json_value(check.expected)
    if not check.passed and isinstance(expected, dict) and isinstance(placed, dict):
        required, placed_leaves = dict(_leaves(expected)), dict(_leaves(placed))
        for leaf in dict.fromkeys([*required, *placed_leaves]):
            due_text, placed_text = required.get(leaf, _ABSENT), placed_leaves.get(leaf, _ABSENT)
            yield Field(f"{name}.{leaf}", due_text, placed_text, due_text == placed_text)
        return
    yield Field(name, _plain(check.expected), _ABSENT if placed is MISSING else _text(placed), check.passed)


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
