"""The cluster's executor by itself: a job that knows no benchmark, on local worker processes."""

from __future__ import annotations

import asyncio
import hashlib
import os
import pickle
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from medagent.core.errors import ModelError, StopRunError, UserError
from medagent.core.plugins import Plugin
from medagent.engine import cluster as executors
from medagent.engine.cluster import IN_WORKER, ClusterExecutor, LackingError, Opening, WorkerWait, take_here
from medagent.engine.journal import Journal
from medagent.engine.limits import UNLIMITED, RunLimits
from medagent.engine.progress import Progress
from medagent.engine.rows import Row, Spent
from medagent.engine.run import Summary, Watch, run_units
from medagent.models.limiter import EndpointStats
from tests.dask_parts import dask
from tests.medagent.engine.counting import Number, numbers
from tests.starts import fork_workers


class WhereRow(Row):
    process: int = 0
    share: int = 0


@dataclass(frozen=True)
class Where:
    """Says where a unit ran; unit 3 fails as `fate` says. Each unit that begins adds a line to the file `begun`."""

    fate: str = ""
    begun: Path | None = None
    concurrency: int = 4
    row: type[WhereRow] = WhereRow
    stats: Sequence[EndpointStats] = ()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Where]:
        if self.fate == "unopened":
            raise UserError("the file is not there")
        if self.fate == "stuck":
            await asyncio.sleep(60)
        yield self

    async def run(self, unit: Number, row: WhereRow) -> None:
        row.process, row.share = os.getpid(), self.concurrency
        row.spent = Spent(calls=1, cost=1.0)
        if self.begun is not None:
            with self.begun.open("a") as file:
                file.write(f"{unit.key}\n")
        if self.fate == "slow":  # longer than an adaptive cluster keeps a worker without tasks
            await asyncio.sleep(0.3)
        elif self.fate == "endless":
            await asyncio.sleep(600)
        elif unit.value == 3 and self.fate == "kill":
            os._exit(1)
        elif unit.value == 3 and self.fate:
            raise {"stop": StopRunError("401"), "model": ModelError("500"), "bug": KeyError("bug")}[self.fate]


@pytest.fixture(scope="module", autouse=True)
def _fast_workers() -> None:
    fork_workers()


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of a cluster of two processes that somebody else started."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", preload=[IN_WORKER]
    ) as started:
        yield started.scheduler_address


def run(
    path: Path, job: Where, count: int = 12, *, on: str | None = None, limits: RunLimits = UNLIMITED
) -> tuple[Summary, dict[str, WhereRow]]:
    """A run on a cluster, or on two worker processes of its own."""
    journal = Journal(path / "j.jsonl", WhereRow)
    try:
        executor = ClusterExecutor(on, None if on else 2, 4)
        return asyncio.run(run_units(job, numbers(count), journal, executor, Watch(Progress(quiet=True)), limits)), {
            row.unit: row for row in journal.rows()
        }
    finally:
        journal.close()


def test_units_run_in_other_processes_each_with_its_share(tmp_path: Path) -> None:
    summary, rows = run(tmp_path, Where())
    assert (summary.done, summary.owed) == (12, [])
    processes = {row.process for row in rows.values()}
    assert os.getpid() not in processes
    assert len(processes) <= 2  # a worker that opens late may come too late
    assert {row.share for row in rows.values()} == {2}


@pytest.mark.parametrize(
    "ending",
    ["os.kill(os.getpid(), signal.SIGKILL)", "os._exit(1)", "os.close(2); raise MemoryError"],
    ids=["killed", "ended", "raised"],
)
def test_a_worker_that_ends_while_it_starts_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    first = tmp_path / "first"
    dies = f"import os, signal\ntry: os.close(os.open({str(first)!r}, os.O_CREAT | os.O_EXCL))\n"
    dies += f"except FileExistsError: pass\nelse: {ending}\n"
    monkeypatch.setattr(executors, "IN_WORKER", dies + IN_WORKER)
    with pytest.raises(
        UserError, match=r"^--workers 2: a worker process ended while it started \(.+\); start .*memory$"
    ):
        run(tmp_path, Where())
    assert not (tmp_path / "j.jsonl").read_bytes()


@pytest.mark.parametrize(("fate", "status"), [("model", "model_error"), ("bug", "benchmark_error")])
def test_a_failure_is_that_units_row(tmp_path: Path, cluster: str, fate: str, status: str) -> None:
    summary, rows = run(tmp_path, Where(fate), on=cluster)
    assert summary.owed == ["n3"]
    assert rows["n3"].status == status
    assert (rows["n3"].traceback is not None) is (fate == "bug")


def test_a_refusal_stops_the_run_and_leaves_a_row(tmp_path: Path, cluster: str) -> None:
    with pytest.raises(StopRunError, match="401"):
        run(tmp_path, Where("stop"), 400, on=cluster)
    journal = Journal(tmp_path / "j.jsonl", WhereRow)
    assert journal.status("n3") == "cancelled"
    assert sum(status == "completed" for status in journal.endings()) < 400
    journal.close()


def test_a_job_that_cannot_be_opened_is_one_line(tmp_path: Path, cluster: str) -> None:
    with pytest.raises(UserError, match="the file is not there"):
        run(tmp_path, Where("unopened"), on=cluster)


@dataclass(frozen=True)
class Reading(Where):
    """Opens a file, which must hold what the driver's holds."""

    file: Path = Path()

    @property
    def files(self) -> Sequence[Path]:
        return (self.file,)

    def moved(self, places: Mapping[Path, Path]) -> Reading:
        return replace(self, file=places[self.file])

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Reading]:
        assert self.file.read_bytes() == b"patients"
        yield self


def test_a_worker_opens_nothing_that_it_was_not_given(tmp_path: Path) -> None:
    away = tmp_path / "away.sqlite"
    away.write_bytes(b"patients")
    digest = hashlib.sha256(b"patients").hexdigest()
    opening = Opening.of(Reading(file=away), "run", 4)
    assert opening.job_here("w").file == away
    away.write_bytes(b"other patients")
    with pytest.raises(LackingError) as lacking:
        opening.job_here("w")
    assert lacking.value.args == ("w", digest)
    take_here(digest, away, 0, b"pati")
    with pytest.raises(UserError, match="changed during the run"):
        take_here(digest, away, 4, b"")
    take_here(digest, away, 0, b"pati")
    take_here(digest, away, 4, b"ents")
    with pytest.raises(LackingError):
        opening.job_here("w")
    take_here(digest, away, 8, b"")
    assert opening.job_here("w").file.read_bytes() == b"patients"


def test_a_worker_refuses_a_run_of_other_packages() -> None:
    opening = Opening.of(Where(), "run", 4)
    opening.job_here("w")
    for version in ("medagent 0.0.9", "Python 3.9.1", "Dask 1.0", "sources 000000000000"):
        name = version.partition(" ")[0]
        before, _, after = opening.installed.partition(f"{name} ")
        installed = f"{before}{version}{after[len(version) - len(name) - 1 :]}"
        with pytest.raises(UserError, match=f"but the run needs .*{version}"):
            replace(opening, installed=installed).job_here("w")


@pytest.mark.parametrize(
    ("module", "words"),
    [("json", "json: its source differs from"), ("no_such_package.x", "no_such_package.x: No module named")],
)
def test_a_worker_refuses_another_source_of_an_installed_benchmark(module: str, words: str) -> None:
    job = pickle.dumps(([Plugin(f"{module}:Any", "0" * 64)], b""))
    with pytest.raises(UserError, match=words):
        replace(Opening.of(Where(), "run", 4), job=job).job_here("w")


@pytest.mark.parametrize("allowed", [3, 0], ids=["Dask's own", "none"])
def test_a_unit_that_kills_its_worker_begins_twice_and_others_end(tmp_path: Path, allowed: int) -> None:
    """With its own `allowed-failures`, Dask would begin it four times."""
    from distributed import LocalCluster

    job, scheduler = Where("kill", tmp_path / "begun"), {"allowed_failures": allowed}
    where: dict[str, Any] = {"dashboard_address": "127.0.0.1:0", "preload": [IN_WORKER], "scheduler_kwargs": scheduler}
    with LocalCluster(n_workers=2, threads_per_worker=1, **where) as cluster:
        summary, rows = run(tmp_path, job, on=cluster.scheduler_address)
    assert summary.owed == []
    row = rows.pop("n3")
    assert (row.status, row.error) == ("agent_error", "its worker died")
    assert {row.status for row in rows.values()} == {"completed"}
    begun = Counter((tmp_path / "begun").read_text().split())
    killed = begun.pop("n3")
    assert killed == 2
    # A worker that dies takes unfetched results with it, so each death may make another unit begin again.
    assert max(begun.values()) <= 1 + killed


def test_a_budget_stops_a_run(tmp_path: Path, cluster: str) -> None:
    summary, rows = run(tmp_path, Where(), 40, on=cluster, limits=RunLimits(cost=9.0))
    assert summary.stopped is not None
    assert "--max-cost 9 is reached" in summary.stopped.text
    assert len(rows) == 9
    summary, rows = run(tmp_path, Where(), 12, on=cluster)  # continued without it
    assert (summary.owed, len(rows)) == ([], 12)


def test_units_in_progress_get_their_rows_when_a_run_is_cancelled(tmp_path: Path, cluster: str) -> None:
    job, journal = Where("endless", tmp_path / "begun"), Journal(tmp_path / "j.jsonl", WhereRow)

    async def cancel() -> None:
        executor = ClusterExecutor(cluster, None, 4)
        work = asyncio.create_task(run_units(job, numbers(9), journal, executor, Watch(Progress(quiet=True))))
        while not (tmp_path / "begun").exists() or len((tmp_path / "begun").read_text().split()) < 4:  # noqa: ASYNC110  # another process writes the file
            await asyncio.sleep(0.02)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    asyncio.run(cancel())
    assert [(row.status, row.spent.cost) for row in journal.rows()] == [("cancelled", 1.0)] * 4
    journal.close()


def test_a_scheduler_without_workers_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from distributed import LocalCluster

    monkeypatch.setattr(executors, "WORKERS_WITHIN_S", 1.0)
    with LocalCluster(n_workers=0, processes=False, protocol="tcp", dashboard_address="127.0.0.1:0") as cluster:
        address = cluster.scheduler_address
        journal = Journal(tmp_path / "j", WhereRow)
        work = run_units(Where(), numbers(3), journal, ClusterExecutor(address, None, 2), Watch(Progress(quiet=True)))
        with pytest.raises(UserError, match=rf"--cluster {address}: no worker within 1 s; start some \(dask worker"):
            asyncio.run(work)
        journal.close()


def test_an_adaptive_cluster_starts_what_a_run_waits_for_and_a_worker_that_leaves_is_no_error(tmp_path: Path) -> None:
    from distributed import LocalCluster

    progress, journal = Progress(quiet=True), Journal(tmp_path / "j", WhereRow)

    async def run_while_one_leaves() -> Summary:
        async with LocalCluster(
            n_workers=0, threads_per_worker=1, asynchronous=True, dashboard_address="127.0.0.1:0", preload=[IN_WORKER]
        ) as cluster:
            cluster.adapt(minimum=0, maximum=2, interval="100ms", wait_count=2)
            executor = ClusterExecutor(cluster.scheduler_address, None, 4, wait=WorkerWait(2, 300))
            work = asyncio.create_task(run_units(Where("slow"), numbers(12), journal, executor, Watch(progress)))
            while not journal.units:  # noqa: ASYNC110  # a journal tells nobody
                await asyncio.sleep(0.02)
            first = next(iter(cluster.scheduler.workers))
            await cluster.scheduler.retire_workers(workers=[first], close_workers=True)
            summary = await work
            assert progress.notes == [f"worker {first} left"]
            return summary

    assert asyncio.run(run_while_one_leaves()).owed == []
    assert set(journal.endings()) == {"completed"}
    assert {row.share for row in journal.rows()} == {2}  # both were there at the beginning
    journal.close()


def test_a_worker_that_does_not_open_the_job_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from distributed import LocalCluster

    monkeypatch.setattr(executors, "OPENED_WITHIN_S", 0.2)
    with LocalCluster(n_workers=1, processes=False, protocol="tcp", dashboard_address="127.0.0.1:0") as cluster:
        address = cluster.workers[0].address
        with pytest.raises(UserError, match=rf"worker {address}: did not open the job within 0\.2 s"):
            run(tmp_path, Where("stuck"), 3, on=cluster.scheduler_address)


def test_a_scheduler_that_goes_while_workers_are_waited_for_ends_the_run(tmp_path: Path) -> None:
    class Killing(Progress):
        def wait(self, text: str) -> None:
            scheduler.process.kill()

    journal = Journal(tmp_path / "j", WhereRow)
    with dask("scheduler", "tcp://", cwd=tmp_path) as scheduler:
        executor = ClusterExecutor(scheduler.address, None, 4, wait=WorkerWait(1, 60))
        summary = asyncio.run(run_units(Where(), numbers(3), journal, executor, Watch(Killing(quiet=True))))
    assert len(summary.owed) == 3
    assert summary.stopped is not None
    assert "the connection to the scheduler is lost" in summary.stopped.text
    journal.close()


def test_workers_are_waited_for_so_long_and_no_longer(tmp_path: Path) -> None:
    from distributed import LocalCluster

    journal = Journal(tmp_path / "j", WhereRow)

    def run_on(address: str, wait: WorkerWait) -> Summary:
        executor = ClusterExecutor(address, None, 4, wait=wait)
        return asyncio.run(run_units(Where(), numbers(3), journal, executor, Watch(Progress(quiet=True))))

    with LocalCluster(n_workers=0, processes=False, protocol="tcp", dashboard_address="127.0.0.1:0") as cluster:
        with pytest.raises(UserError, match=r"no worker within 0\.2 s; .* wait longer with --wait-for-workers"):
            run_on(cluster.scheduler_address, WorkerWait(2, 0.2))
        cluster.scale(1)
        cluster.wait_for_workers(1)
        assert run_on(cluster.scheduler_address, WorkerWait(2, 0.2)).done == 3
    journal.close()
