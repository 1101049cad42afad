"""The data of a page: its head, an index of items, and the parts with their details."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any

from medagent.core.scrub import hide
from medagent.core.wire import without_password
from medagent.engine.blocks import Block, ConversationBlock, Details, ItemDetail
from medagent.engine.figures import dollars, duration, figure
from medagent.engine.report import ItemOutcome, Report
from medagent.engine.rows import OWED, Spent
from medagent.reports._measured import above_blind, measured_on
from medagent.reports.page._paired import Official, comparison
from medagent.reports.page.pack import Parts, packed_text, plain_json
from medagent.reports.tables import grounded_words

_SHORTEST_PREAMBLE = 400
"""A common beginning of prompts that is longer than this is stored once."""
_FOLDED = ("Slowest", "Versions", "Folder")
"""Facts that are folded."""
_SECONDS = re.compile(r"T(\d\d:\d\d):[\d.]+\+00:00")
_LOOKED_AT = 40
"""Number of prompts whose common beginning is used."""
_PIECE = 5_000
"""Number of items in a piece of the index."""


@dataclass(frozen=True, slots=True)
class RunPage:
    """A run on a page: its label, its figures, and its details from the benchmark."""

    label: str
    report: Report
    details: Details


@dataclass(frozen=True, slots=True)
class Document:
    """The data of a page: `head`, pieces of the index of items, and the parts with their details. All except the head
    are packed. The index is unpacked piece by piece, a part when one of its items is opened.
    """

    title: str
    runs: list[dict[str, Any]]
    head: dict[str, Any]
    items: Iterable[str]
    parts: Iterable[str]


_Place = tuple[str, int]
"""An item and a trial."""


@dataclass(slots=True)
class _Line:
    """A line of the index; `outcomes` has JSON for each run, null if the run does not have the item."""

    group: str
    question: str
    outcomes: list[str]


def document(pages: Sequence[RunPage], made: str, official: Official, parts: Parts) -> Document:
    """Combine runs of one benchmark; several are compared with the first. `made` is the time. `parts` may be those of
    an earlier page of the same runs.
    """
    index: dict[_Place, _Line] = {}
    preambles = []
    for number, page in enumerate(pages):
        details = iter(page.details.items())
        first = [(one, one.made) for one in islice(details, _LOOKED_AT)]
        preambles.append(_preamble([blocks for _, blocks in first]))
        known = ((replace(one, blocks=blocks) for one, blocks in first), details)
        for place, group, question, outcome in _entries(page, chain(*known), preambles[-1], parts):
            line = index.setdefault(place, _Line(group, question, ["null"] * len(pages)))
            line.question = line.question or question
            line.outcomes[number] = outcome
    runs = [(page.label, page.report) for page in pages]
    return Document(
        title=" · ".join(page.label for page in pages),
        runs=[_run(page) for page in pages],
        head={
            "kinds": {kind: words for page in pages for kind, words in page.details.kinds.items()},
            "preambles": preambles,
            "made": made,
            "comparison": comparison(runs, official) if len(pages) > 1 else None,
        },
        items=_pieces(index),
        parts=parts,
    )


def _pieces(index: Mapping[_Place, _Line]) -> Iterator[str]:
    lines = (
        f"{plain_json([*place, line.group, line.question[:300]])[:-1]},[{','.join(line.outcomes)}]]"
        for place, line in index.items()
    )
    while some := list(islice(lines, _PIECE)):
        yield packed_text(f"[{','.join(some)}]")


def _entries(
    page: RunPage, details: Iterable[ItemDetail], preamble: str, parts: Parts
) -> Iterator[tuple[_Place, str, str, str]]:
    """A line of the index for each item of a run, whose details are added to a part. Items without details
    come last."""
    shown: set[_Place] = set()
    for one in details:
        place = one.item, one.trial
        shown.add(place)
        outcome = one.outcome or _ended(one)
        yield place, outcome.group, one.question, plain_json(_outcome(outcome, one, _part(one, preamble, parts)))
    for outcome in page.report.items:
        if (outcome.item, outcome.trial) not in shown:
            yield (outcome.item, outcome.trial), outcome.group, "", plain_json(_outcome(outcome, None, None))


def _ended(one: ItemDetail) -> ItemOutcome:
    return ItemOutcome(item=one.item, trial=one.trial, status=one.row.status if one.row else "")


def _part(one: ItemDetail, preamble: str, parts: Parts) -> Sequence[Any] | None:
    """Where the blocks of an item are, which are added unless equal ones exist; then its own values if they differ."""
    digest = one.digest and one.digest + hashlib.sha1(preamble.encode()).digest()
    if digest and (place := parts.place(digest)):
        return place[:2] if place.values == tuple(one.values) else (*place[:2], one.values)
    blocks = [_shortened(block, preamble) for block in one.made]
    return parts.add(blocks, digest, tuple(one.values)) if blocks else None


def _outcome(one: ItemOutcome, detail: ItemDetail | None, part: Sequence[Any] | None) -> list[Any]:
    """The values that the list shows of an item and filters by, in the order of `OUTCOME` in `list.js`."""
    row = detail.row if detail else None
    spent = row.spent if row else Spent()
    return [
        one.correct,
        one.score,
        one.status,
        one.kind or (detail.kind if detail else ""),
        one.reason,
        one.because,
        spent.cost if spent.calls else None,
        spent.usage.total if spent.calls else None,
        row.seconds if row else None,
        list(detail.failed) if detail else [],
        part,
        one.status in OWED,
        one.finish_reasons,
        one.grounded,
        one.reading,
    ]


def _preamble(details: Sequence[Sequence[Block]]) -> str:
    """The common beginning of a run's first messages if it is long; otherwise empty."""
    first = [
        block.messages[0].text
        for blocks in details
        for block in blocks
        if isinstance(block, ConversationBlock) and block.messages
    ]
    shared = _common(first) if len(first) > 1 else ""
    return shared if len(shared) > _SHORTEST_PREAMBLE else ""


def _common(texts: Sequence[str]) -> str:
    """The common beginning of all texts."""
    low, high = min(texts), max(texts)
    length = next((place for place, pair in enumerate(zip(low, high, strict=False)) if pair[0] != pair[1]), len(low))
    return low[:length]


def _shortened(block: Block, preamble: str) -> Block:
    """A conversation whose first message begins with NUL instead of the preamble."""
    if not preamble or not isinstance(block, ConversationBlock) or not block.messages:
        return block
    first, *others = block.messages
    if not first.text.startswith(preamble):
        return block
    return replace(block, messages=[replace(first, text="\0" + first.text.removeprefix(preamble)), *others])


def _run(page: RunPage) -> dict[str, Any]:
    """A run's head: what was measured, the figure, the cost."""
    report = page.report
    facts = _facts(report)
    overall = report.overall
    interval = overall.interval if overall else None
    return {
        "label": page.label,
        "benchmark": report.benchmark,
        "facts": {name: text for name, text in facts.items() if name not in _FOLDED},
        "more": [f"{name}: {facts[name]}" for name in _FOLDED if name in facts],
        "figure": report.figure,
        "measure": report.measure,
        "value": overall.value if overall else None,
        "low": interval[0] if interval else None,
        "high": interval[1] if interval else None,
        "shown": figure(overall.value, report.measure) if overall else "–",
        "bounds": f"{figure(interval[0], report.measure)} to {figure(interval[1], report.measure)}" if interval else "",
        "n": overall.n if overall else 0,
        "right": overall.counts.get("right") if overall else None,
        "above": above_blind(report),
        "grounded": grounded_words(overall.grounded) if overall else "",
        "notes": [without_password(hide(note)) for note in report.notes],
        "endings": report.endings,
        "owed": len(report.owed),
        "stopped": report.stopped or "",
        "cost": report.spent.cost if report.spent.calls else None,
        "tokens": report.spent.usage.total if report.spent.calls else None,
        "panels": list(page.details.panels),
    }


def _facts(report: Report) -> Mapping[str, str]:
    """What was measured and how, the most important first."""
    spent = report.spent
    facts = {"Benchmark": report.benchmark}
    facts |= {name: text for name, _, text in (line.partition(": ") for line in measured_on(report))}
    if spent.calls:
        facts["Calls"] = f"{spent.calls:,}, {spent.prompt:,} tokens in, {spent.completion:,} out"
        facts["Cost"] = dollars(spent.cost)
    if report.slowest:
        facts["Slowest"] = duration(report.slowest)
    facts["Folder"] = report.folder
    return {name: _SECONDS.sub(r" \1 UTC", without_password(hide(text))) for name, text in facts.items()}
