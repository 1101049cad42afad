"""The details of a graded run for a page: each unit's blocks from its benchmark, and those that every unit has."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import TypeAdapter

from medagent.engine.benchmark import Benchmark
from medagent.engine.blocks import Block, ConversationBlock, Details, ItemDetail, VerdictsBlock, ending_blocks
from medagent.engine.graded_units import GradedUnit
from medagent.engine.report import Report
from medagent.engine.scores import Score, Scored

Units = Callable[[], Iterable[GradedUnit]]
"""Reads the units of a run; each call starts from the first."""
_SCORE = TypeAdapter(Score)


def details_of(benchmark: Benchmark[Any, Any], report: Report, units: Units) -> Details:
    """The details of a run."""

    def items() -> Iterator[ItemDetail]:
        return (_detail(benchmark, unit) for unit in units())

    return Details(items, [*benchmark.panels(report, _Scores(units))], benchmark.kinds)


def unit_blocks(benchmark: Benchmark[Any, Any], unit: GradedUnit) -> list[Block]:
    """The blocks of a unit; differing verdicts and how it ended come before the messages."""
    one, row = unit.scored, unit.row()
    if row is None:
        return []
    blocks = list(benchmark.blocks(one.item, row, one.score))
    place = next((n for n, block in enumerate(blocks) if isinstance(block, ConversationBlock)), len(blocks))
    return [*blocks[:place], *_differing(one, unit.others(row)), *ending_blocks(row), *blocks[place:]]


def _detail(benchmark: Benchmark[Any, Any], unit: GradedUnit) -> ItemDetail:
    one, head = unit.scored, unit.head
    failed = one.score.failed if one.score else []
    outcome = one.outcome
    if head is None:
        return ItemDetail(one.item.id, one.trial, (), None, one.item.question, failed, outcome=outcome)
    if unusual := head.spent.unusual:
        outcome = replace(outcome, finish_reasons=tuple(dict.fromkeys(unusual)))
    return ItemDetail(
        one.item.id,
        one.trial,
        lambda: unit_blocks(benchmark, unit),
        head,
        one.item.question,
        failed,
        digest=_digest(unit),
        values=_made_up(unit),
        outcome=outcome,
    )


def _digest(unit: GradedUnit) -> bytes:
    """The digest of everything that the blocks of a unit depend on, except generated values; empty if unknown."""
    content, score = unit.content, unit.scored.score
    if content is None:
        return b""
    text = _SCORE.dump_json(score) if score else b""
    values = content.values
    same = repr([values.index(one) for one in values])  # which of the values are equal
    parts = (unit.scored.item.id.encode(), content.digest, same.encode(), text)
    return hashlib.sha1(b"\0".join(parts), usedforsecurity=False).digest()


def _made_up(unit: GradedUnit) -> list[str]:
    return [] if unit.content is None else [one.decode() for one in dict.fromkeys(unit.content.values)]


def _differing(one: Scored, others: Mapping[str, Score]) -> Iterator[Block]:
    """The verdicts of other rule sets if one differs."""
    differing = {name: other for name, other in others.items() if {other.correct, one.correct} == {True, False}}
    if differing and one.score is not None:
        verdicts = {"official": one.score, **differing}
        yield VerdictsBlock([(name, other.correct, other.reason) for name, other in verdicts.items()])


class _Scores(Sequence[Scored]):
    """The scores of a run's units, computed while you iterate."""

    def __init__(self, units: Units) -> None:
        self._units = units

    def __iter__(self) -> Iterator[Scored]:
        return (unit.scored for unit in self._units())

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, place: Any) -> Any:
        return list(self)[place]
