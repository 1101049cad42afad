"""The cluster's executor by itself: a job that knows no benchmark, on local worker processes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from medagent.engine.cluster import ClusterExecutor
from medagent.engine.journal import Journal
from medagent.engine.progress import Progress
from medagent.engine.rows import Row
from medagent.engine.units import Summary, Watch, run_units
from medagent.errors import ModelError, StopRunError, UserError
from medagent.models.limiter import EndpointStats
from tests.medagent.engine.counting import Number, numbers


class WhereRow(Row):
    process: int = 0
    share: int = 0


@dataclass(frozen=True)
class Where:
    """Says where a unit ran; unit 3 fails as `fate` says."""

    fate: str = ""
    concurrency: int = 4
    row: type[WhereRow] = WhereRow
    stats: Sequence[EndpointStats] = ()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Where]:
        if self.fate == "unopened":
            raise UserError("the file is not there")
        yield self

    async def run(self, unit: Number, row: WhereRow) -> None:
        await asyncio.sleep(0.02)
        row.process, row.share = os.getpid(), self.concurrency
        if unit.value == 3 and self.fate:
            raise {"stop": StopRunError("401"), "model": ModelError("500"), "bug": KeyError("bug")}[self.fate]


def run(path: Path, job: Where, count: int = 12) -> tuple[Summary, dict[str, WhereRow]]:
    journal = Journal(path / "j.jsonl", WhereRow)
    watch: Watch[WhereRow] = Watch(Progress(quiet=True))
    try:
        executor = ClusterExecutor(None, 2, 4)
        return asyncio.run(run_units(job, numbers(count), journal, executor, watch)), {
            row.unit: row for row in journal.rows()
        }
    finally:
        journal.close()


def test_units_run_in_other_processes_each_with_its_share(tmp_path: Path) -> None:
    summary, rows = run(tmp_path, Where())
    assert (summary.done, summary.owed) == (12, [])
    processes = {row.process for row in rows.values()}
    assert os.getpid() not in processes
    assert len(processes) == 2
    assert {row.share for row in rows.values()} == {2}


@pytest.mark.parametrize(("fate", "status"), [("model", "model_error"), ("bug", "benchmark_error")])
def test_a_failure_is_that_units_row(tmp_path: Path, fate: str, status: str) -> None:
    summary, rows = run(tmp_path, Where(fate))
    assert summary.owed == ["n3"]
    assert rows["n3"].status == status
    assert (rows["n3"].traceback is not None) is (fate == "bug")


def test_a_refusal_stops_the_run_and_leaves_a_row(tmp_path: Path) -> None:
    with pytest.raises(StopRunError, match="401"):
        run(tmp_path, Where("stop"), 400)
    journal = Journal(tmp_path / "j.jsonl", WhereRow)
    assert journal.status("n3") == "cancelled"
    assert sum(status == "completed" for status in journal.endings()) < 400
    journal.close()


def test_a_job_that_cannot_be_opened_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the file is not there"):
        run(tmp_path, Where("unopened"))
