"""Workers of other machines: another home, another working folder, other variables. They do the run's work or say why
not; and a scheduler that is killed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dask_parts import Part, dask
from tests.loopback import ModelServer
from tests.medagent.benchmarks.medagentbench.runs import rows, run
from tests.medagent.fhir_data.people import ward

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
    assert "OPENAI_API_KEY, which is named as the key of http://127.0.0.1:" in said
    assert said.endswith("is not set in the environment")
