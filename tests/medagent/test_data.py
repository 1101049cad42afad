"""`medagent data`: what data there is, the hospital built, and the same results with it on another server."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from fhir_server.synthetic import bundled
from medagent.benchmarks.data_sources import data_sources
from medagent.benchmarks.medagentbench.tasks.dataset import OFFICIAL_DIGESTS
from medagent.cli.app import spelled
from medagent.fhir_data.embedded import bundled_file
from tests.command import medagent
from tests.medagent.fhir_data.live import LiveServer
from tests.medagent.fhir_data.people import ward
from tests.shared_data import ROOT
from tests.test_doc_commands import parsed


def test_the_list_names_data_sets_and_says_whether_the_hospital_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDAGENT_HOME", str(tmp_path))
    ran = medagent("data")
    assert ran.code == 0
    rows = [line.split() for line in ran.out.splitlines()]
    assert [row[:3] for row in rows if len(row) == 4 and row[0] == "synthetic"] == [
        ["synthetic", "v1", "100"],
        ["synthetic", "v2", "300"],
    ]
    assert "hospital: not built yet" in ran.out
    assert not any(tmp_path.rglob("*.sqlite"))


def test_the_hospital_is_built_once_and_again_when_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = bundled_file().path
    monkeypatch.setenv("MEDAGENT_HOME", str(tmp_path))
    hospital = tmp_path / "cache" / shared.name
    hospital.parent.mkdir()
    for file in shared.parent.glob(f"{shared.stem}*"):  # other tests read the shared one now
        if not file.name.endswith(("-wal", "-shm")):
            shutil.copy(file, hospital.parent)
    assert medagent("data").out.splitlines()[-1] == f"hospital: {hospital}"
    ran = medagent("ehr", "build")
    assert (ran.code, ran.out, ran.err) == (0, f"{hospital}\n", "")
    hospital.write_bytes(b"damaged" * 1000)
    monkeypatch.setattr(bundled, "PROFILE", replace(bundled.PROFILE, patients=2))  # what is built does not matter here
    assert "hospital: not built yet" in medagent("data").out
    ran = medagent("ehr", "build")
    assert (ran.code, ran.out) == (0, f"{hospital}\n")
    assert "building the hospital" in ran.err


def test_a_damaged_data_set_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDAGENT_HOME", str(tmp_path))
    file = tmp_path / "data" / "official" / "test_data_v1.json"
    file.parent.mkdir(parents=True)
    file.write_text("[{]")
    ran = medagent("data")
    assert ran.code == 1
    assert f"{file}:1: is not JSON" in ran.err
    assert ran.err.endswith("a JSON task file is expected\n")


@pytest.mark.long
def test_the_hospital_pushed_into_a_server_gives_the_same_results(tmp_path: Path) -> None:
    """`data push` and then `run --fhir`: the results of the embedded server, times and ids in replies aside."""
    with LiveServer() as server:
        assert medagent("ehr", "push", "--to", server.url).code == 0
        run = ["run", "--version", "v1", "--agent", "reference", "--quiet", "--results-dir", tmp_path]
        assert medagent(*run, "--round", "over-http", "--fhir", server.url).code == 0
        assert medagent(*run, "--round", "in-process").code == 0
    over_http, in_process = (
        re.sub(r'"(timestamp|round)": "[^"]*"|with id: \w+', "", path.read_text())
        for path in sorted(tmp_path.glob("*/results.json"))
    )
    assert over_http == in_process


def test_a_small_file_is_pushed_and_run_over(tmp_path: Path) -> None:
    file = tmp_path / "ward.ndjson"
    file.write_text("\n".join(ward(1, 2)))
    with LiveServer() as server:
        assert medagent("ehr", "push", "--to", server.url + "/", "--ehr", file).code == 0
        checked = medagent("doctor", "--fhir", server.url)
    assert f"ok   --fhir: {server.url}: " in checked.out
    assert "1 Patient, 2 Observation, searches are answered" in checked.out


def test_where_names_address_and_licence_and_a_digest_only_where_the_file_was_at_hand() -> None:
    everything = json.loads(medagent("data", "where", "--json").out)
    assert {source["set"] for source in everything} >= {
        "medagentbench",
        "promptcblue",
        "simpleqa",
        "husimpleqa",
        "imapscore",
    }
    assert all(source["url"].startswith("https://") and source["licence"] for source in everything)
    assert {source["sha256"] for source in everything if source["set"] == "medagentbench"} == {
        *OFFICIAL_DIGESTS.values(),
        "",
    }
    assert all((source["bytes"] is None) == (source["sha256"] == "") for source in everything)
    ran = medagent("data", "where", "simpleqa")
    assert ran.code == 0
    assert "from: https://openaipublic.blob.core.windows.net/simple-evals/simple_qa_test_set.csv" in ran.out
    assert next(line for line in ran.out.splitlines() if "MIT" in line).split()[-2:] == ["–", "–"]
    refused = medagent("data", "where", "simple")
    assert (refused.code, refused.err.startswith("medagent: unknown data set 'simple'; known: medagentbench")) == (
        1,
        True,
    )


def test_the_commands_of_where_are_ones_that_there_are() -> None:
    for source in data_sources():
        words = shlex.split(source.use)
        if words[0] == "medagent":
            parsed(spelled(words[1:]))
        else:
            assert (ROOT / words[1]).is_file()
