"""The pack of a run that several modules check."""

from __future__ import annotations

from pathlib import Path

import pytest

from medagent.benchmarks.medagentbench.generator.write import MabGenerator
from medagent.engine.data_sets import SetOptions
from tests.command import medagent


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The pack of a run in two trials of a task of each type, and its data set."""
    folder = tmp_path_factory.mktemp("submission")
    dataset = folder / "set"
    MabGenerator().make(dataset, SetOptions("shift", None, "one", patients=30, per_type=3))
    run = ("run", "--dataset", dataset, "--version", "v1", "--agent", "reference", "--trials", "2", "--quiet")
    assert medagent(*run, "--writes", "execute", "--results-dir", folder).code == 0
    assert medagent("submit", "pack", folder / "v1_r1_reference", "--out", folder / "whole.zip").code == 0
    return folder / "whole.zip", dataset
