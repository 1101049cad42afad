"""What a page shows of a graded run: each unit's blocks from its benchmark, and what every unit has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from medagent.engine.benchmark import Benchmark
from medagent.engine.blocks import Block, ConversationBlock, Details, ItemDetail, VerdictsBlock, ending_blocks
from medagent.engine.report import Report
from medagent.engine.rows import Row
from medagent.engine.scores import Scored


def details_of(
    benchmark: Benchmark[Any, Any],
    report: Report,
    scores: Sequence[Scored],
    rows: Mapping[str, Any] | Any,
    others: Mapping[str, Sequence[Scored]],
) -> Details:
    """The details of a run. `rows` maps a unit to its row; `others` are the same units under further rule sets."""
    verdicts = {name: {one.unit: one for one in some} for name, some in others.items()}

    def items() -> Iterable[ItemDetail]:
        for one in scores:
            row = rows.get(one.unit)
            if row is not None:
                yield _detail(benchmark, one, row, {name: some[one.unit] for name, some in verdicts.items()})

    return Details(items, [*benchmark.panels(report, scores)], benchmark.kinds)


def unit_blocks(benchmark: Benchmark[Any, Any], one: Scored, row: Row, others: Mapping[str, Scored]) -> list[Block]:
    """The blocks of a unit; differing verdicts and how it ended stand before the messages."""
    blocks = list(benchmark.blocks(one.item, row, one.score))
    place = next((n for n, block in enumerate(blocks) if isinstance(block, ConversationBlock)), len(blocks))
    return [*blocks[:place], *_differing(one, others), *ending_blocks(row), *blocks[place:]]


def _detail(benchmark: Benchmark[Any, Any], one: Scored, row: Row, others: Mapping[str, Scored]) -> ItemDetail:
    failed = one.score.failed if one.score else []
    blocks = unit_blocks(benchmark, one, row, others)
    return ItemDetail(one.item.id, one.trial, blocks, row, one.item.question, failed)


def _differing(one: Scored, others: Mapping[str, Scored]) -> Iterator[Block]:
    """What rule sets say that differ from the one that counts."""
    differing = {name: other for name, other in others.items() if {other.correct, one.correct} == {True, False}}
    if differing:
        verdicts = {"official": one, **differing}
        yield VerdictsBlock(
            [(name, other.correct, other.score.reason if other.score else "") for name, other in verdicts.items()]
        )


class RowsByUnit:
    """The rows of a run, one at a time, read when they are asked for."""

    def __init__(self, benchmark: Benchmark[Any, Any], run: Any) -> None:
        self._benchmark, self._run = benchmark, run

    def get(self, unit: str) -> Row | None:
        """The row of a unit, or None."""
        return next(iter(self._rows(unit)), None)

    def _rows(self, unit: str) -> Iterator[Row]:
        rows: Iterator[Row] = self._run.rows(self._benchmark.row, units=[unit])
        return rows
