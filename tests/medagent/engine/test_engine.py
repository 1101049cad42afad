"""The engine: what is owed is run, what is finished is kept, what must stop stops."""

from __future__ import annotations

import asyncio
import resource
import signal
from pathlib import Path

import pytest

from medagent.core.errors import StopRunError, UserError
from medagent.engine.journal import Journal
from medagent.engine.limits import RunLimits
from medagent.engine.local import LocalExecutor
from medagent.engine.progress import Progress
from medagent.engine.run import Summary, Watch, run_units
from medagent.engine.scores import Item, Score, Scored
from tests.medagent.engine.counting import Counting, NumberRow, numbers


def run(path: Path, job: Counting, count: int, *, limits: RunLimits | None = None, concurrency: int = 4) -> Summary:
    journal = Journal(path, NumberRow)
    try:
        return asyncio.run(
            run_units(
                job,
                numbers(count),
                journal,
                LocalExecutor(concurrency),
                Watch(Progress(quiet=True)),
                limits or RunLimits(),
            )
        )
    finally:
        journal.close()


def rows(path: Path) -> dict[str, NumberRow]:
    journal = Journal(path, NumberRow)
    try:
        return {row.unit: row for row in journal.rows()}
    finally:
        journal.close()


def test_every_unit_has_a_row_and_a_second_run_does_nothing(tmp_path: Path) -> None:
    job = Counting()
    summary = run(tmp_path / "j.jsonl", job, 20)
    assert (summary.total, summary.done, summary.owed) == (20, 20, [])
    assert sorted(job.ran) == list(range(20))
    assert job.most == 4
    assert rows(tmp_path / "j.jsonl")["n7"].square == 49
    again = Counting()
    assert run(tmp_path / "j.jsonl", again, 20).done == 20
    assert again.ran == []


def test_a_smaller_run_is_continued_by_a_larger_one(tmp_path: Path) -> None:
    run(tmp_path / "j.jsonl", Counting(), 5)
    job = Counting()
    run(tmp_path / "j.jsonl", job, 8)
    assert sorted(job.ran) == [5, 6, 7]


def test_failed_units_are_owed_and_run_again(tmp_path: Path) -> None:
    summary = run(tmp_path / "j.jsonl", Counting(failing=frozenset({2, 3})), 5)
    assert summary.owed == ["n2", "n3"]
    job = Counting()
    assert run(tmp_path / "j.jsonl", job, 5).owed == []
    assert sorted(job.ran) == [2, 3]
    assert rows(tmp_path / "j.jsonl")["n2"].status == "completed"


def test_a_refused_key_stops_the_run_and_keeps_what_was_under_way_as_cancelled(tmp_path: Path) -> None:
    with pytest.raises(StopRunError, match="401"):
        run(tmp_path / "j.jsonl", Counting(stopping=frozenset({3}), slow=frozenset({1, 2})), 100)
    left = rows(tmp_path / "j.jsonl")
    assert left["n1"].status == "cancelled"
    assert len(left) < 10
    job = Counting()
    assert run(tmp_path / "j.jsonl", job, 100).owed == []
    assert 0 not in job.ran


def test_an_interrupted_run_records_what_was_under_way(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.jsonl", NumberRow)

    async def interrupted() -> None:
        job = Counting(slow=frozenset({2}))
        running = asyncio.create_task(
            run_units(job, numbers(3), journal, LocalExecutor(3), Watch(Progress(quiet=True)), RunLimits())
        )
        while len(list(journal.units)) < 2:  # noqa: ASYNC110  # the rows of the two others
            await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(interrupted())
    journal.close()
    assert {k: r.status for k, r in rows(tmp_path / "j.jsonl").items()} == {
        "n0": "completed",
        "n1": "completed",
        "n2": "cancelled",
    }


@pytest.mark.parametrize(
    ("limits", "words"),
    [(RunLimits(tokens=50), "--max-tokens-total 50"), (RunLimits(cost=0.5), "--max-cost 0.5")],
)
def test_limits_stop_new_units_gracefully(tmp_path: Path, limits: RunLimits, words: str) -> None:
    summary = run(tmp_path / "j.jsonl", Counting(tokens=10, cost=0.1), 50, limits=limits, concurrency=2)
    assert summary.stopped is not None
    assert words in summary.stopped.text
    assert 5 <= summary.done <= 7
    assert len(summary.owed) == 50 - summary.done


def test_a_cost_limit_that_an_unknown_price_makes_void_stops_the_run(tmp_path: Path) -> None:
    summary = run(tmp_path / "j.jsonl", Counting(tokens=10), 50, limits=RunLimits(cost=100.0))
    assert summary.stopped is not None
    assert "--max-cost cannot be kept: the cost of 5 calls is unknown" in summary.stopped.text
    assert summary.done == 5
    few = run(tmp_path / "few.jsonl", Counting(tokens=10), 4, limits=RunLimits(cost=100.0))
    assert few.stopped is None  # as many as four are taken to be an exception
    assert run(tmp_path / "few.jsonl", Counting(tokens=10, cost=1.0), 50, limits=RunLimits(cost=100.0)).stopped is None


def test_a_full_disk_is_a_clear_error(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.jsonl", NumberRow)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(UserError, match="cannot be written: File too large"):
            asyncio.run(run_units(Counting(), numbers(9), journal, LocalExecutor(2), Watch(Progress(quiet=True))))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
        journal.close()


def test_progress_says_how_far_it_is_in_plain_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal = Journal(tmp_path / "j.jsonl", NumberRow)

    async def right(unit: str) -> Scored:
        return Scored(Item(id=unit), 1, unit, "completed", Score(correct=unit != "n1"))

    watch = Watch(Progress(), right)
    asyncio.run(run_units(Counting(tokens=10, cost=0.001), numbers(4), journal, LocalExecutor(2), watch, RunLimits()))
    journal.close()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "4/4 · right 75% · 40 tokens · $0.0040" in captured.err
    assert "\x1b" not in captured.err
