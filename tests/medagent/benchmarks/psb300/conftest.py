"""The made-up published set, imported once, and a finished run of the reference agent over it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.command import Ran, medagent
from tests.medagent.benchmarks.psb300 import made


class Set(NamedTuple):
    """The made-up set: a home in which it is imported, its patients, and runs over it."""

    home: Path
    checkout: Path
    patients: Path
    results: Path

    def run(self, *args: object) -> Ran:
        """`medagent run psb-300` over it, by the scenario's clock."""
        words = ("run", "psb-300", "--dataset", "published", "--results-dir", self.results, "--quiet")
        clock = () if "--clock" in args else ("--clock", made.CLOCK)
        ehr = () if "--fhir" in args or "--ehr" in args else ("--ehr", self.patients)
        return medagent(*words, *clock, *ehr, *args)


@pytest.fixture(scope="package")
def published(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Set]:
    folder = tmp_path_factory.mktemp("psb300")
    checkout, patients = made.write(folder)
    found = Set(folder / "home", checkout, patients, folder / "results")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEDAGENT_HOME", str(found.home))
        assert medagent("data", "import", checkout).code == 0
        yield found


@pytest.fixture(scope="package")
def reference(published: Set) -> Path:
    """A run of the reference agent over all 300 tasks."""
    ran = published.run("--agent", "reference", "--round", "all")
    assert ran.code == 0, ran.err
    return published.results / "psb-300_all_reference"
