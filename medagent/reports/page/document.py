"""Runs put together for a page: what stands in its head, an index of items, the parts that hold their details."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from medagent.core.scrub import hide
from medagent.core.wire import without_password
from medagent.engine.blocks import Block, ConversationBlock, Details, ItemDetail
from medagent.engine.figures import dollars, duration, figure
from medagent.engine.report import ItemOutcome, Report
from medagent.engine.rows import OWED, Spent
from medagent.reports.measured import above_blind, measured_on
from medagent.reports.page.pack import Parts
from medagent.reports.page.paired import Official, comparison
from medagent.reports.tables import grounded_words

_SHORTEST_PREAMBLE = 400
"""A beginning that prompts share is kept once if it is longer than this."""
_FOLDED = ("Slowest", "Versions", "Folder")
"""What is known of a run and few ask for."""
_SECONDS = re.compile(r"T(\d\d:\d\d):[\d.]+\+00:00")
_LOOKED_AT = 40
"""From so many prompts the beginning that they share is worked out."""


@dataclass(frozen=True, slots=True)
class RunPage:
    """A run on a page: what it is called there, its figures, what its benchmark shows of it."""

    label: str
    report: Report
    details: Details


@dataclass(slots=True)
class Document:
    """What a page holds. `head` and `items` are unpacked at once, `parts` when an item is opened."""

    title: str
    runs: list[dict[str, Any]]
    head: dict[str, Any]
    items: list[list[Any]] = field(default_factory=list)
    parts: Parts = field(default_factory=Parts)


def document(pages: Sequence[RunPage], made: str, official: Official) -> Document:
    """Put runs of one benchmark together; several are compared with the first. `made` says when."""
    kinds = {kind: words for page in pages for kind, words in page.details.kinds.items()}
    preambles = [_preamble(page.details) for page in pages]
    found = Document(
        title=" · ".join(page.label for page in pages),
        runs=[_run(page) for page in pages],
        head={"kinds": kinds, "preambles": preambles, "made": made},
    )
    index: dict[tuple[str, int], list[Any]] = {}
    for number, (page, preamble) in enumerate(zip(pages, preambles, strict=True)):
        for place, entry in _entries(page, preamble, found.parts):
            name, group, question, outcome = entry
            line = index.setdefault(place, [*name, group, question, [None] * len(pages)])
            line[3] = line[3] or question
            line[4][number] = outcome
    found.items = list(index.values())
    runs = [(page.label, page.report) for page in pages]
    found.head["comparison"] = comparison(runs, official) if len(pages) > 1 else None
    return found


def _entries(page: RunPage, preamble: str, parts: Parts) -> Iterator[tuple[tuple[str, int], tuple[Any, ...]]]:
    """A line of the index for each item of a run, in the report's order; its details go into a part."""
    told: dict[tuple[str, int], tuple[ItemDetail, tuple[int, int] | None]] = {}
    for one in page.details.items():
        blocks = [_shortened(block, preamble) for block in one.blocks]
        told[one.item, one.trial] = replace(one, blocks=()), parts.add(blocks) if blocks else None
    reported = {(one.item, one.trial): one for one in page.report.items}
    for place in dict.fromkeys([*reported, *told]):
        known = told.get(place)
        detail, part = known if known else (None, None)
        outcome = reported.get(place) or ItemOutcome(
            item=place[0], trial=place[1], status=detail.row.status if detail and detail.row else ""
        )
        yield place, (place, outcome.group, detail.question[:300] if detail else "", _outcome(outcome, detail, part))


def _outcome(one: ItemOutcome, detail: ItemDetail | None, part: tuple[int, int] | None) -> list[Any]:
    """What a list shows of an item, and filters by; the order is that of `OUTCOME` in `list.js`."""
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


def _preamble(details: Details) -> str:
    """How the first messages of a run begin, all of them, where that is long."""
    first = [
        block.messages[0].text
        for detail in islice(details.items(), _LOOKED_AT)
        for block in detail.blocks
        if isinstance(block, ConversationBlock) and block.messages
    ]
    shared = _common(first) if len(first) > 1 else ""
    return shared if len(shared) > _SHORTEST_PREAMBLE else ""


def _common(texts: Sequence[str]) -> str:
    """The beginning that all texts share."""
    low, high = min(texts), max(texts)
    length = next((place for place, pair in enumerate(zip(low, high, strict=False)) if pair[0] != pair[1]), len(low))
    return low[:length]


def _shortened(block: Block, preamble: str) -> Block:
    """A conversation whose first message begins with NUL in place of the preamble."""
    if not preamble or not isinstance(block, ConversationBlock) or not block.messages:
        return block
    first, *others = block.messages
    if not first.text.startswith(preamble):
        return block
    return replace(block, messages=[replace(first, text="\0" + first.text.removeprefix(preamble)), *others])


def _run(page: RunPage) -> dict[str, Any]:
    """A run's head: what was measured, the figure, what it cost."""
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
    """What was measured, and how, in the order in which a reader asks for it."""
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
