"""`make test-long PART=2/4`: the parts of the tests together are all tests, each once."""

from __future__ import annotations

import subprocess
import sys

from tests.shared_data import ROOT


def collected(*words: str) -> list[str]:
    options = ["-o", "addopts=--import-mode=importlib", "-p", "no:cacheprovider", "--collect-only", "-q"]
    command = [sys.executable, "-m", "pytest", *options, "tests/refsol/test_trials.py", *words]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return [line for line in (ran.stdout + ran.stderr).splitlines() if "::" in line or "no part" in line]


def test_every_test_is_in_one_part() -> None:
    whole = collected()
    parts = [collected("--part", f"{number}/2") for number in (1, 2)]
    assert len(whole) > 2
    assert sorted(parts[0] + parts[1]) == sorted(whole)
    assert abs(len(parts[0]) - len(parts[1])) <= 1
    (refused,) = collected("--part", "3/2")
    assert refused.endswith("argument --part: '3/2' is no part such as 2/4")
