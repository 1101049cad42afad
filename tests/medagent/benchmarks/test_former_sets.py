"""Runs over the former bundled sets can be shown, graded and compared; continuing one stops with one line."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from tests.command import medagent
from tests.shared_data import DATA

RUNS = {
    "v2_r1_reference": (),
    "psb-300_r1_reference": ("psb-300",),
    "fhir-agentbench_r1_reference": ("fhir-agentbench",),
}
"""Runs of ten items with the reference agent, made by the version before: by folder, the name of the benchmark."""


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """The folder of the runs, unpacked."""
    with tarfile.open(DATA / "former_runs.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


@pytest.mark.parametrize("name", RUNS)
def test_a_run_over_the_former_set_is_read_and_graded(name: str, runs: Path) -> None:
    shown = medagent("show", runs / name)
    assert (shown.code, "Ended: 10 completed" in shown.out) == (0, True), shown.err
    graded = medagent("grade", runs / name, "--json")
    overall = json.loads(graded.out)["overall"]
    assert graded.code == 0, graded.err
    assert overall.get("right", overall.get("counts", {}).get("right")) == 10
    compared = medagent("compare", runs / name, runs / name)
    assert compared.code == 0, compared.err


@pytest.mark.parametrize("name", RUNS)
def test_it_is_not_continued(name: str, runs: Path) -> None:
    words = ("run", *RUNS[name], "--agent", "reference", "--results-dir", runs, "--quiet")
    ran = medagent(*words)
    assert ran.code == 1
    assert "the run uses other settings" in ran.err.splitlines()[-1]
    former = medagent(*words, "--dataset", "synthetic-3" if name.startswith("v2") else "synthetic-1", "--round", "new")
    assert (former.code, former.err.count("\n")) == (1, 1), former.err
    assert "the former bundled one" in former.err
    assert "for a new run, pass --dataset synthetic" in former.err
