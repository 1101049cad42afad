"""`check` tests a task type on a chart, for pytest: the ruling, its reasons, the right reply, wrong ones, the twin."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from refsol.clinical.chart import Chart
from refsol.clinical.evidence import because
from refsol.clinical.meanings import CLINICAL, Is
from refsol.clinical.orders import Order
from refsol.clinical.rulings import Ruling, delete
from refsol.clinical.searches import ref
from refsol.clinical.sources import Resource, Resources, Source
from refsol.clinical.task_type import Solution, TaskType
from refsol.clinical.trial import created, tried
from refsol.clinical.twins import MakeChart, Twin, moved, signature, time_of, twin, valued
from refsol.errors import DataFault
from refsol.history import Post
from refsol.verdict import Verdict

BASE = "http://localhost:8080/fhir/"


@dataclass(frozen=True)
class Checked:
    """What follows from a task type on one chart. Printed, it is a report."""

    ruling: Ruling
    because: str
    """What the rule read and compared, and what follows."""
    answer: Any
    """The answer of the right reply."""
    posts: tuple[tuple[str, Mapping[str, Any]], ...]
    """The posts of the right reply, as pairs of URL and JSON."""
    requests: tuple[tuple[str, str, Any], ...]
    """The further requests of the right reply: method, URL and JSON (None: no body)."""
    wrong: Mapping[str, str]
    """For each part of the reply that was made wrong, the reason of the verdict."""
    twin: Twin | None
    """The smallest change of a recorded read that changes the ruling."""

    def __str__(self) -> str:
        lines = [self.because, f"right answer: {json.dumps(self.answer)}"]
        lines += [f"right POST {url}\n{json.dumps(body)}" for url, body in self.posts]
        lines += [
            f"right {method} {url}" + ("" if body is None else f"\n{json.dumps(body)}")
            for method, url, body in self.requests
        ]
        change = self.twin and f"{self.twin.change.words} ({self.twin.after.branch})"
        return "\n".join([*lines, f"wrong, one at a time: {', '.join(self.wrong)}", f"twin: {change or 'none'}"])


def check(kind: type[TaskType], resources: Sequence[Resource], *, patient: str, now: datetime) -> Checked:
    """Test a task type on some resources. `patient` is the id of the Patient.

    Raises AssertionError if the right reply is not right or a wrong one is, RuleError if the type is at fault,
    DataFault if the resources lack what the rule needs, and ValueError if `now` lacks a time zone. Warns if the ruling
    changes at a limit that was not recorded.
    """
    if now.utcoffset() is None:
        raise ValueError(f"now={now.isoformat()} lacks a time zone; write datetime(…, tzinfo=UTC)")
    task_type = created(kind)

    def make(source: Source) -> Chart:
        return Chart(source, patient, now, CLINICAL, base=BASE)

    ruling, chart = tried(task_type, lambda: make(Resources(resources)))
    right = Solution.of(ruling, chart)

    def judged(reply: Solution) -> Verdict:
        return task_type.judge(make(Resources(resources)), reply.reply)

    verdict = judged(right)
    assert verdict.correct, f"the right reply of {task_type.name} is not right: {verdict.reason}"
    wrong = {}
    for name, reply in _wrong(ruling, right, chart):
        verdict = judged(reply)
        assert verdict.correct is False, f"{task_type.name}: a reply with a wrong {name} counts as right"
        wrong[name] = verdict.reason
    for words in unrecorded(task_type, make, resources):
        warnings.warn(words, stacklevel=2)
    sentence = because(chart, ruling).sentence
    return Checked(ruling, sentence, right.answer, right.posts, right.requests, wrong, twin(task_type, make, resources))


def _wrong(ruling: Ruling, right: Solution, chart: Chart) -> Iterator[tuple[str, Solution]]:
    """The right reply with one part wrong at a time, and the part's name."""
    due = [order.json(chart) for order in ruling.due]

    def posted(*bodies: dict[str, Any]) -> Solution:
        return right._replace(posts=tuple(Post(f"{BASE}{body['resourceType']}", body) for body in bodies))

    if ruling.answers:
        yield "answer", right._replace(answer=changed(right.answer))
    for place, order in enumerate(ruling.due):
        before, after = due[:place], due[place + 1 :]
        yield f"{order.kind} left out", posted(*before, *after)
        if ruling.only or not ruling.edits:
            yield f"{order.kind} twice", posted(*due, due[place])
        yield f"{order.kind} resourceType", posted(*before, {**due[place], "resourceType": "Task"}, *after)
        for number, field in enumerate(order.every(chart)):
            yield f"{order.kind} {field.path}", posted(*before, with_wrong(order, number, chart), *after)
    for place, edit in enumerate(ruling.edits):
        others = right.edits[:place] + right.edits[place + 1 :]
        yield f"{edit.change.name} unchanged", right._replace(edits=others)
        for path, meaning in (edit.values or {}).items():
            wrong_edit = edit._replace(values={**(edit.values or {}), path: Is(changed(meaning.json()))})
            yield f"{edit.change.name} {path}", right._replace(edits=(*others, wrong_edit))
    if ruling.only:
        more = delete({"resourceType": "Patient", "id": "another"})
        yield "other change", right._replace(edits=(*right.edits, more))


def with_wrong(order: Order, number: int, chart: Chart) -> dict[str, Any]:
    """The JSON of an order with one wrong field."""
    fields = list(order.every(chart))
    fields[number] = fields[number]._replace(meaning=Is(changed(fields[number].meaning.json())))
    return Order(order.kinds, tuple(fields)).json(chart)


def changed(value: Any) -> Any:
    """A JSON value of the same form with other numbers and texts."""
    if isinstance(value, dict):
        return {name: changed(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [changed(inner) for inner in value] or ["wrong"]
    return 2 * value + 1000 if isinstance(value, int | float) else "wrong"


_SHARES = (0, 0.25, 0.5, 0.75, 0.9, 1.1, 1.25, 1.5, 2, 4, 10)
_LENGTHS = tuple(timedelta(hours=hours) for hours in (1, 6, 24, 72, 168, 720, 2160, 8760, 26280, 87600))


def unrecorded(kind: TaskType, make: MakeChart, resources: Sequence[Resource]) -> Iterator[str]:
    """Warnings: readings at which the ruling changes though no recorded comparison does.

    Each value and time that the rule read is changed. If all comparisons have the same outcome, the rule must do the
    same, because it may decide only by what the chart records.
    """
    chart = make(Resources(resources))
    first = _Tried.of(kind.ruled(chart), chart, "the chart as it is")
    for used in [
        resource for searched in chart.searched for resource in searched.used if searched.search.kind != "Patient"
    ]:
        alike: dict[Any, list[_Tried]] = {_trace(chart): [first]}
        for change in _probes(used):
            probed = make(Resources(change.on(resources)))
            with suppress(DataFault):
                attempt = _Tried.of(kind.ruled(probed), probed, change.words)
                alike.setdefault(_trace(probed), []).append(attempt)
        if pair := next(filter(None, map(_unlike, alike.values())), None):
            yield (
                f"{kind.name}: {pair[1].words} changes the ruling against {pair[0].words}, at a limit that was not "
                "recorded; compare the event or its number (last < 7), not its value, and use event.before and "
                "event.older_than for times"
            )


class _Tried(NamedTuple):
    """A ruling on a changed chart: its signature, its branch with the types of its orders, and the change in words."""

    ruling: tuple[str, ...]
    branch: tuple[Any, ...]
    words: str

    @classmethod
    def of(cls, ruling: Ruling, chart: Chart, words: str) -> _Tried:
        branch = (ruling.branch, *(order.kinds for order in ruling.due), *(edit.kind for edit in ruling.edits))
        return cls(signature(ruling, chart), branch, words)


def _unlike(tried: Sequence[_Tried]) -> tuple[_Tried, _Tried] | None:
    """Two rulings that differ although the chart's record is the same. A dose, time or answer that is computed from a
    value does not count: it differs with nearly every change, not at a limit.
    """
    is_computed = [*Counter(attempt.ruling for attempt in tried).values()].count(1) > 1
    first = tried[0]
    unlike = (
        attempt
        for attempt in tried
        if attempt.ruling != first.ruling and (attempt.branch != first.branch or not is_computed)
    )
    return next(((first, attempt) for attempt in unlike), None)


def _probes(used: Resource) -> Iterator[Any]:
    """Changes of one resource over a wide range of values and times."""
    value = used.get("valueQuantity", {}).get("value")
    if isinstance(value, int | float):
        yield from (valued(used, value * share, 1) for share in _SHARES)
    if (time := time_of(used)) is not None:
        yield from (moved(used, time + sign * length) for sign in (-1, 1) for length in _LENGTHS)


def _trace(chart: Chart) -> tuple[Any, ...]:
    """What a rule may decide by: which resources it found, and the outcome of each comparison."""
    reads = (tuple(map(ref, searched.used)) for searched in chart.searched)
    return (*reads, *((comparison.what, comparison.op, comparison.outcome) for comparison in chart.compared))
