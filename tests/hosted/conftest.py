"""Makes the packages in hosted/ importable and installed, as `pip install ./hosted/NAME` does, for their tests."""

from __future__ import annotations

import importlib
import sys
import tomllib
from pathlib import Path

import pytest

from tests.shared_data import ROOT

PACKAGES = [file.parent for file in sorted((ROOT / "hosted").glob("*/pyproject.toml"))]


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the entry points of all packages, and use an empty folder for the imported data and the runs."""
    site = tmp_path_factory.mktemp("site")
    for package in PACKAGES:
        project = tomllib.loads((package / "pyproject.toml").read_text("utf-8"))["project"]
        folder = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n", "utf-8"
        )
        groups = project["entry-points"].items()
        lines = [
            f"[{group}]\n" + "".join(f"{name} = {goal}\n" for name, goal in entry_points.items())
            for group, entry_points in groups
        ]
        (folder / "entry_points.txt").write_text("\n".join(lines), "utf-8")
    monkeypatch.setattr(sys, "path", [str(site), *map(str, PACKAGES), *sys.path])
    importlib.invalidate_caches()
    monkeypatch.setenv("MEDAGENT_HOME", str(tmp_path_factory.mktemp("home")))
    monkeypatch.chdir(tmp_path)
