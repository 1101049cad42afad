"""The page: a template, a style sheet, scripts and the data in one file.

The data is JSON, deflated, in base64: a head; an index of items, in pieces; and the items' blocks, in parts. The
browser unpacks the index piece by piece, and a part when one of its items is opened.
"""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain, islice
from os.path import commonprefix
from pathlib import Path
from typing import Any

from medagent.core.clock import wall_clock
from medagent.core.errors import UserError
from medagent.core.number_formats import dollars, duration, figure, harm_words
from medagent.core.scrub import hide
from medagent.core.wire import without_password
from medagent.engine.benchmark import Benchmark
from medagent.engine.blocks import Block, ConversationBlock, VerdictsBlock, ending_blocks
from medagent.engine.pairs import nouns_of
from medagent.engine.report import ItemOutcome, Report, TableLine
from medagent.engine.results import GradedUnit
from medagent.engine.rows import OWED, Spent
from medagent.engine.scores import Scored
from medagent.reports._measured import above_blind, conditions, title
from medagent.reports.compare_views import Official, page_pairs
from medagent.reports.tables import bounds, grounded_words
from refsol.failures import kind_name
from refsol.stats import Interval

_HERE = Path(__file__).parent
_SCRIPTS = ("dom", "fhir", "charts", "chart", "blocks", "conversation", "run", "compare", "list", "app")
_PART_BYTES = 400_000
"""A part is full when its JSON exceeds this number of characters."""
_PIECE = 5_000
"""Number of items in a piece of the index."""
_SHORTEST_PREAMBLE = 400
"""A common beginning of prompts that is longer than this is stored once."""
_COMPARED_PROMPTS = 40
"""Number of prompts whose common beginning is used."""
_SECONDS = re.compile(r"T(\d\d:\d\d):[\d.]+\+00:00")


@dataclass(frozen=True, slots=True)
class RunPage:
    """A run on a page: its label, its report, its scores and graded units, and the benchmark that shows them."""

    label: str
    report: Report
    benchmark: Benchmark[Any, Any]
    scores: Sequence[Scored]
    units: Iterable[GradedUnit]
    scores_only: bool = False
    """Whether its items show scores, kinds and counts only, because their texts quote a hospital's charts."""


def render(pages: Sequence[RunPage], official: Official) -> Iterator[str]:
    """The page of one run, or of several of one benchmark side by side, piece by piece. Raises UserError."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    benchmarks = {page.report.benchmark for page in pages}
    if len(benchmarks) > 1:
        raise UserError(f"runs of different benchmarks cannot share a report: {', '.join(sorted(benchmarks))}")
    index: dict[tuple[str, int], list[Any]] = {}
    parts = _Parts()
    preambles = [_add_run(page, index, parts, number, len(pages)) for number, page in enumerate(pages)]
    items = list(index.values())
    made, runs = wall_clock(), [_run(page) for page in pages]
    head = {
        "kinds": {kind: words for page in pages for kind, words in page.benchmark.kinds.items()},
        "names": {kind: kind_name(kind) for page in pages for kind in _kinds(page.report)},
        "groups": {group: words for page in pages for group, words in page.report.group_names.items()},
        "preambles": preambles,
        "made": made,
        "comparison": {"pairs": page_pairs([page.report for page in pages], official)} if len(pages) > 1 else None,
        "runs": runs,
    }
    script = '"use strict";\n' + "".join((_HERE / f"{name}.js").read_text(encoding="utf-8") for name in _SCRIPTS)
    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("page.html").generate(
        title=" vs ".join(run["title"] for run in runs),
        runs=runs,
        made=made,
        style=(_HERE / "page.css").read_text(encoding="utf-8"),
        script=script,
        digest=b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        index=packed(head),
        items=(packed(items[start : start + _PIECE]) for start in range(0, len(items), _PIECE)),
        parts=parts.packed(),
    )


def _kinds(report: Report) -> set[str]:
    """The kinds of failure of a run's items."""
    return {item.kind for item in report.items} - {""}


def packed(value: Any) -> str:
    """A value as JSON, without the secrets that this process knows, deflated and in base64."""
    return _packed_text(_json(value))


def _json(value: Any) -> str:
    """A value as JSON; blocks are objects with their names."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain)


def _plain(value: Any) -> Any:
    """A dataclass as an object of its fields; a block contains its name too. Raises TypeError for other values."""
    named = {"name": value.name} if isinstance(value, Block) else {}
    return {**named, **{field.name: getattr(value, field.name) for field in fields(value)}}


def _packed_text(text: str) -> str:
    deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
    return b64encode(deflate.compress(hide(text).encode()) + deflate.flush()).decode()


class _Parts:
    """Packed parts of a page. `add` appends a value and returns the number of its part and its place there."""

    def __init__(self) -> None:
        self._packed: list[str] = []
        self._open: list[str] = []
        self._size = 0

    def add(self, value: Any) -> tuple[int, int]:
        """Append a value."""
        if self._size > _PART_BYTES:
            self._close()
        self._open.append(_json(value))
        self._size += len(self._open[-1])
        return len(self._packed), len(self._open) - 1

    def packed(self) -> Sequence[str]:
        """All parts. Nothing can be added after that."""
        if self._open:
            self._close()
        return self._packed

    def _close(self) -> None:
        self._packed.append(_packed_text(f"[{','.join(self._open)}]"))
        self._open = []
        self._size = 0


def _add_run(page: RunPage, index: dict[tuple[str, int], list[Any]], parts: _Parts, number: int, runs: int) -> str:
    """Add a run's units to the index, and their blocks to the parts. Returns the run's preamble."""
    shown = ((unit, [] if page.scores_only else _blocks(page.benchmark, unit)) for unit in page.units)
    first = list(islice(shown, _COMPARED_PROMPTS))
    preamble = _preamble([blocks for _, blocks in first])
    outcomes = {(item.item, item.trial): item for item in page.report.items}
    for unit, blocks in chain(first, shown):
        place = unit.scored.item.id, unit.scored.trial
        outcome, question = outcomes[place], "" if page.scores_only else unit.scored.item.question[:300]
        part = parts.add([_shortened(block, preamble) for block in blocks]) if blocks else None
        line = index.setdefault(place, [*place, outcome.group, question, [None] * runs])
        line[3] = line[3] or question
        line[4][number] = _outcome(outcome, unit, part)
    return preamble


def _blocks(benchmark: Benchmark[Any, Any], unit: GradedUnit) -> list[Block]:
    """The blocks of a unit; differing verdicts and how it ended come before the messages."""
    scored, row = unit.scored, unit.row
    if row is None:
        return []
    blocks = list(benchmark.blocks(scored.item, row, scored.score))
    added = ending_blocks(row)
    if unit.verdicts:
        added.insert(
            0, VerdictsBlock([(name, verdict.correct, verdict.reason) for name, verdict in unit.verdicts.items()])
        )
    place = next((n for n, block in enumerate(blocks) if isinstance(block, ConversationBlock)), len(blocks))
    return [*blocks[:place], *added, *blocks[place:]]


def _outcome(outcome: ItemOutcome, unit: GradedUnit, part: tuple[int, int] | None) -> list[Any]:
    """The values that the list shows of an item and filters by, in the order of `OUTCOME` in `list.js`."""
    row, score = unit.row, unit.scored.score
    spent = row.spent if row else Spent()
    return [
        outcome.correct,
        outcome.score,
        outcome.status,
        outcome.kind,
        outcome.reason,
        outcome.because,
        spent.cost if spent.calls else None,
        spent.usage.total if spent.calls else None,
        row.seconds if row else None,
        score.failed if score else [],
        part,
        outcome.status in OWED,
        outcome.finish_reasons,
        outcome.grounded,
        outcome.reading,
    ]


def _preamble(details: Sequence[Sequence[Block]]) -> str:
    """The common beginning of a run's first messages if it is long; otherwise empty."""
    first = [
        block.messages[0].text
        for blocks in details
        for block in blocks
        if isinstance(block, ConversationBlock) and block.messages
    ]
    shared = commonprefix(first) if len(first) > 1 else ""  # noqa: RUF071  # character by character, as meant
    return shared if len(shared) > _SHORTEST_PREAMBLE else ""


def _shortened(block: Block, preamble: str) -> Block:
    """A conversation whose first message begins with NUL instead of the preamble."""
    if not preamble or not isinstance(block, ConversationBlock) or not block.messages:
        return block
    first, *others = block.messages
    if not first.text.startswith(preamble):
        return block
    return replace(block, messages=[replace(first, text="\0" + first.text.removeprefix(preamble)), *others])


def _run(page: RunPage) -> dict[str, Any]:
    """A run's head: its title, its score, the cost, what was measured."""
    report = page.report
    overall = report.overall or TableLine(name="", n=0)
    interval = Interval(*overall.interval) if overall.interval else None
    return {
        "label": page.label,
        "title": _clean(title(report)),
        "facts": _facts(report),
        "figure": report.figure,
        "measure": report.measure,
        "value": overall.value,
        "low": interval and interval.low,
        "high": interval and interval.high,
        "shown": figure(overall.value, report.measure),
        "bounds": bounds(interval, report.measure) if interval else "",
        "score": list(_score(report, overall)),
        "fault": _commonest_fault(report),
        "below": " · ".join(filter(None, [_spent(report.spent), report.data.note])),
        "n": overall.n,
        "grounded": grounded_words(overall.grounded),
        "notes": [_clean(note) for note in report.notes],
        "stopped": report.stopped or "",
        "cost": report.spent.cost if report.spent.calls else None,
        "tokens": report.spent.usage.total if report.spent.calls else None,
        "panels": page.benchmark.panels(report, page.scores),
    }


def _score(report: Report, overall: TableLine) -> Iterator[str]:
    """The texts next to the score."""
    right = overall.counts.get("right")
    nouns = nouns_of(report.items, "")
    words = f"{nouns} of twins are {overall.name}" if nouns else "right"
    yield report.figure if right is None else f"{right} of {overall.n} {words}"
    if overall.interval:
        yield f"95% interval {bounds(Interval(*overall.interval), report.measure)}"
    if right is None:
        yield f"n {overall.n:,}"
    if margin := above_blind(report):
        yield f"compared with blind: {margin}"
    if words := grounded_words(overall.grounded):
        yield f"data read: {words}"
    if harm := harm_words(report.details.get("harm")):
        yield f"harm: {harm}"
    if report.owed:
        yield f"{len(report.owed)} owed"


def _commonest_fault(report: Report) -> dict[str, str] | None:
    """The most frequent kind of failure, with a typical item; None if no item is wrong."""
    faults = report.failure_groups
    if not faults:
        return None
    fault, wrong = faults[0], sum(len(fault.items) for fault in faults)
    item = fault.items[0]
    return {
        "name": kind_name(fault.kind),
        "count": f"{len(fault.items):,} of {wrong:,} wrong",
        "item": item.item if item.trial == 1 else f"{item.item}.{item.trial}",
        "reason": _clean(item.reason),
    }


def _spent(spent: Spent) -> str:
    """The tokens of a run, and its cost if the prices are known."""
    cost = "" if spent.cost is None else f", {dollars(spent.cost)}"
    return f"{spent.tokens_text}{cost}" if spent.calls else ""


def _facts(report: Report) -> Mapping[str, str]:
    """What was measured and how, the most important first."""
    spent = report.spent
    facts = {"Benchmark": report.benchmark}
    facts |= conditions(report)
    if spent.calls:
        facts["Calls"] = f"{spent.calls:,}, {spent.prompt:,} tokens in, {spent.completion:,} out"
        facts["Cost"] = dollars(spent.cost)
    if report.slowest:
        facts["Slowest"] = duration(report.slowest)
    facts["Folder"] = report.folder
    return {name: _SECONDS.sub(r" \1 UTC", _clean(text)) for name, text in facts.items()}


def _clean(text: str) -> str:
    """A text without secrets."""
    return without_password(hide(text))
