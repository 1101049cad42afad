"""The pack of a run that several modules check."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command import medagent


@pytest.fixture(scope="module")
def made(shift: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The pack of a run in two trials, and its data set."""
    folder = tmp_path_factory.mktemp("submission")
    run = ("run", "--dataset", shift, "--version", "v1", "--agent", "reference", "--trials", "2", "--quiet")
    assert medagent(*run, "--writes", "execute", "--results-dir", folder).code == 0
    assert medagent("submit", "pack", folder / "v1_r1_reference", "--out", folder / "whole.zip").code == 0
    return folder / "whole.zip", shift
