"""What a run, and one unit, may take; and the order in which units are taken."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medagent.core.errors import UserError
from medagent.engine.journal import Journal
from medagent.engine.limits import RunLimits, UnitLimits
from medagent.engine.local import LocalExecutor
from medagent.engine.progress import Progress
from medagent.engine.run import Summary, Watch, run_units
from medagent.engine.settings import mixed
from medagent.models.base import Completion, Usage
from tests.medagent.engine.counting import Counting, Number, NumberRow, numbers
from tests.read_only import read_only


@dataclass(slots=True)
class Calling(Counting):
    """Each unit makes as many calls as its number says, of ten tokens and ten cents each."""

    begun: list[int] = field(default_factory=list)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Calling]:
        yield self

    async def run(self, unit: Number, row: NumberRow) -> None:
        self.begun.append(unit.value)
        for _ in range(unit.value):
            await asyncio.sleep(0)
            row.spent.add(Completion("x", Usage(prompt=9, completion=1), cost=0.1))


def run(
    path: Path, job: Counting, units: list[Number], limits: RunLimits, unit: UnitLimits, concurrency: int
) -> tuple[Summary, dict[str, NumberRow], float]:
    journal = Journal(path, NumberRow)
    try:
        executor = LocalExecutor(concurrency, unit)
        summary = asyncio.run(run_units(job, units, journal, executor, Watch(Progress(quiet=True)), limits))
        return summary, {row.unit: row for row in journal.rows()}, journal.spent.cost or 0.0
    finally:
        journal.close()


@pytest.mark.parametrize("concurrency", [1, 16, 512])
def test_concurrency_does_not_change_what_a_budget_allows(tmp_path: Path, concurrency: int) -> None:
    units = [Number(2 + value % 3) for value in range(600)]
    units = [Number(unit.value * 1000 + place) for place, unit in enumerate(units)]

    class Thousands(Calling):
        async def run(self, unit: Number, row: NumberRow) -> None:
            await Calling.run(self, Number(unit.value // 1000), row)

    summary, rows, spent = run(tmp_path / "j", Thousands(), units, RunLimits(cost=30.0), UnitLimits(), concurrency)
    assert summary.stopped is not None
    assert summary.stopped.text.startswith("--max-cost 30 is reached")
    assert 27 <= spent <= 33
    assert summary.done == len(rows) == 600 - len(summary.owed)


def test_little_begins_before_it_is_known_what_a_unit_takes(tmp_path: Path) -> None:
    job = Calling()
    summary, _, _ = run(tmp_path / "j", job, numbers(600)[100:], RunLimits(cost=0.01), UnitLimits(), 512)
    assert summary.stopped is not None
    assert len(job.begun) == 4


@pytest.mark.parametrize("concurrency", [1, 3, 16])
def test_a_budget_keeps_pairs_together(tmp_path: Path, concurrency: int) -> None:
    units = [Number(10 + place) for place in range(40)]
    pairs = {unit.key: f"pair{place // 2}" for place, unit in enumerate(units)}
    job, journal = Calling(), Journal(tmp_path / "j", NumberRow)
    watch = Watch(Progress(quiet=True))
    work = run_units(job, units, journal, LocalExecutor(concurrency), watch, RunLimits(cost=20.0), pairs=pairs)
    summary = asyncio.run(work)
    journal.close()
    begun = Counter(pairs[f"n{value}"] for value in job.begun)
    assert summary.stopped is not None
    assert 0 < len(begun) < 20
    assert set(begun.values()) == {2}


def test_a_share_of_failures_ends_a_run(tmp_path: Path) -> None:
    job = Counting(failing=frozenset(range(0, 600, 3)))
    summary, rows, _ = run(tmp_path / "j", job, numbers(600), RunLimits(fail_after=0.3), UnitLimits(), 4)
    assert summary.stopped is not None
    assert summary.stopped.text.startswith("--fail-after 0.3 is reached (4 of 1")
    assert "model_error: 500: down" in summary.stopped.text
    assert len(rows) < 20
    patient, _, _ = run(
        tmp_path / "p", Counting(failing=job.failing), numbers(60), RunLimits(fail_after=0.4), UnitLimits(), 4
    )
    assert patient.stopped is None


def test_a_unit_that_takes_too_much_ends_by_a_status_of_its_own(tmp_path: Path) -> None:
    slow = Counting(slow=frozenset({1}))
    _, rows, _ = run(tmp_path / "t", slow, numbers(3), RunLimits(), UnitLimits(seconds=0.1), 4)
    assert {key: row.status for key, row in rows.items()} == {
        "n0": "completed", "n1": "time_limit", "n2": "completed",
    }  # fmt: skip
    for limits, status in ((UnitLimits(tokens=35), "token_limit"), (UnitLimits(cost=0.35), "cost_limit")):
        summary, rows, _ = run(tmp_path / status, Calling(), numbers(8), RunLimits(), limits, 4)
        assert [row.status for key, row in sorted(rows.items())] == ["completed"] * 4 + [status] * 4
        assert rows["n7"].spent.calls == 4  # the call that went over it is paid for, too
        assert summary.owed == []


def test_a_folder_that_cannot_be_written_starts_nothing_that_is_owed(tmp_path: Path) -> None:
    Journal(tmp_path / "j", NumberRow).close()
    with read_only(tmp_path), pytest.raises(UserError, match="cannot be written"):
        Journal(tmp_path / "j", NumberRow)
    journal = Journal(tmp_path / "j", NumberRow, writable=False)
    with pytest.raises(UserError, match="cannot be written, but 3 of 3 units are owed"):
        asyncio.run(run_units(Counting(), numbers(3), journal, LocalExecutor(1), Watch(Progress(quiet=True))))
    journal.close()


@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=6), count=st.integers(0, 30))
def test_the_order_mixes_the_groups_and_a_larger_part_begins_with_a_smaller_one(sizes: list[int], count: int) -> None:
    keys = [f"task{group}_{number}" for group, size in enumerate(sizes) for number in range(size)]
    order = mixed(keys, lambda key: key.partition("_")[0])
    assert sorted(order) == sorted(keys)
    assert {key.partition("_")[0] for key in order[: len(sizes)]} == {f"task{group}" for group in range(len(sizes))}
    few = mixed(keys, lambda key: key.partition("_")[0], per_group=2)
    assert few == [key for key in order if key in few]
    assert len(few) == sum(min(size, 2) for size in sizes)
    assert mixed(keys[::-1]) == mixed(keys)
