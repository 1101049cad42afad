"""A ward, imported once, and runs over it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.command import Ran, medagent
from tests.medagent.benchmarks.fhiragentbench.ward import write_questions, write_ward

Run = Callable[..., Ran]


@pytest.fixture(scope="session")
def ward(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of ward.sqlite and questions.csv."""
    folder = tmp_path_factory.mktemp("ward")
    write_questions(folder)
    ran = medagent("ehr", "import", write_ward(folder), "--data", folder / "ward.sqlite")
    assert ran.code == 0, ran.err
    return folder


@pytest.fixture
def run(ward: Path, tmp_path: Path) -> Run:
    """`medagent run fhir-agentbench` over the ward, its results in `tmp_path`."""

    def run(*words: Any, questions: Path | None = None) -> Ran:
        data = ("--dataset", questions or ward / "questions.csv", "--ehr", ward / "ward.sqlite")
        return medagent("run", "fhir-agentbench", *data, "--results-dir", tmp_path, "--quiet", *words)

    return run
