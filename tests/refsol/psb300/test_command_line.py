"""`python -m refsol.psb300 --vectors FILE`, in a Python without any installed package."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.refsol.psb300.charts import rows
from tests.shared_data import ROOT


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, "-S", "-m", "refsol.psb300", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", check=False)


def lines(count: int, *, wrong: int = 0) -> bytes:
    found = [dict(row) for row in rows("vectors")[:count]]
    for row in found[:wrong]:
        row["verdict"] = not row["verdict"]
    return "".join(json.dumps(row) + "\n" for row in found).encode()


@pytest.mark.parametrize("name", ["vectors.jsonl", "vectors.jsonl.gz"])
def test_equal_vectors_exit_with_0(tmp_path: Path, name: str) -> None:
    data = lines(50)
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    done = run("--vectors", str(tmp_path / name))
    assert (done.returncode, done.stdout, done.stderr) == (0, "50 of 50 equal\n", "")


def test_at_most_ten_differing_cases_are_printed(tmp_path: Path) -> None:
    (tmp_path / "v.jsonl").write_bytes(lines(50, wrong=12))
    done = run("--vectors", str(tmp_path / "v.jsonl"))
    printed = done.stdout.splitlines()
    assert done.returncode == 1
    assert len(printed) == 11
    assert printed[0].startswith("task1-0000: ")
    assert printed[-1] == "38 of 50 equal"


@pytest.mark.parametrize(
    ("name", "data", "problem"),
    [
        ("v.jsonl", b'{"case": "a"}\n', "v.jsonl:1: is not a recorded case: KeyError('verdict')"),
        ("v.jsonl", b"nonsense\n", "v.jsonl:1: is not JSON"),
        ("v.jsonl.gz", gzip.compress(lines(50))[:-20], "v.jsonl.gz: cannot be read: the compressed file is cut off"),
        ("v.jsonl.gz", b"plain", "v.jsonl.gz: cannot be read: Not a gzipped file"),
        ("v.jsonl", b"", "0 of 0 equal"),
    ],
)
def test_a_bad_file_is_one_clear_line(tmp_path: Path, name: str, data: bytes, problem: str) -> None:
    (tmp_path / name).write_bytes(data)
    done = run("--vectors", str(tmp_path / name))
    assert done.returncode == 1
    assert problem in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
