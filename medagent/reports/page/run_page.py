"""The details of a graded run for a page: each unit's blocks from its benchmark, and those that every unit has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from medagent.engine.benchmark import Benchmark
from medagent.engine.blocks import Block, ConversationBlock, Details, ItemDetail, VerdictsBlock, ending_blocks
from medagent.engine.report import Report
from medagent.engine.results import GradedUnit
from medagent.engine.scores import Scored


def details_of(
    benchmark: Benchmark[Any, Any], report: Report, scores: Sequence[Scored], units: Iterable[GradedUnit]
) -> Details:
    """The details of a run with these scores and units."""
    items = (_detail(benchmark, unit) for unit in units)
    return Details(items, benchmark.panels(report, scores), benchmark.kinds)


def unit_blocks(benchmark: Benchmark[Any, Any], unit: GradedUnit) -> list[Block]:
    """The blocks of a unit; differing verdicts and how it ended come before the messages."""
    one, row = unit.scored, unit.row
    if row is None:
        return []
    blocks = list(benchmark.blocks(one.item, row, one.score))
    added = ending_blocks(row)
    if unit.verdicts:
        added.insert(0, VerdictsBlock([(name, score.correct, score.reason) for name, score in unit.verdicts.items()]))
    place = next((n for n, block in enumerate(blocks) if isinstance(block, ConversationBlock)), len(blocks))
    return [*blocks[:place], *added, *blocks[place:]]


def _detail(benchmark: Benchmark[Any, Any], unit: GradedUnit) -> ItemDetail:
    one = unit.scored
    failed = one.score.failed if one.score else []
    return ItemDetail(one.item.id, one.trial, unit_blocks(benchmark, unit), unit.row, one.item.question, failed)
