"""The public API is typed: a user's program, and the programs of the docs, pass mypy and pyright under strict rules."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.shared_data import ROOT
from tests.test_docs import fences

PROGRAM = ROOT / "tests" / "user_program.py"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
IS_PROGRAM = re.compile(r"^(import medagent$|from medagent)", re.MULTILINE)
NEEDS_OTHERS = ("import wandb", "import pytest")
"""What marks programs that need a package of somebody else's, or fixtures of pytest."""
PYRIGHT = {
    "include": ["."],
    "typeCheckingMode": "strict",
    "enableTypeIgnoreComments": False,
    "reportUnnecessaryTypeIgnoreComment": "error",
}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the user's program and each program of the docs."""
    folder = tmp_path_factory.mktemp("programs")
    shutil.copy(PROGRAM, folder)
    for page in PAGES:
        for number, (language, text) in enumerate(fences(page.read_text(encoding="utf-8"))):
            if language == "python" and IS_PROGRAM.search(text) and not any(word in text for word in NEEDS_OTHERS):
                (folder / f"{page.stem.replace('-', '_')}_{number}.py").write_text(text, encoding="utf-8")
    return folder


def checked(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_mypy_finds_nothing_in_the_programs_of_users(programs: Path) -> None:
    assert len(list(programs.iterdir())) > 12
    files = sorted(path.name for path in programs.glob("*.py"))
    cache = ROOT / ".mypy_cache" / "programs"
    problems = checked([sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(cache), *files], programs)
    assert not problems, problems


@pytest.mark.long
def test_pyright_finds_nothing_in_the_programs_of_users(programs: Path) -> None:
    if shutil.which("node") is None:
        pytest.skip("pyright needs Node.js")
    (programs / "pyrightconfig.json").write_text(json.dumps(PYRIGHT))
    problems = checked([sys.executable, "-m", "pyright", "--pythonpath", sys.executable], programs)
    assert not problems, problems
