"""A small pack that unpacks to much is refused with one line, before it takes memory or time."""

from __future__ import annotations

import hashlib
import json
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from medagent.benchmarks.medagentbench.submission.pack import LARGEST_JSON, LARGEST_ROW
from tests import bounded
from tests.command import medagent

Raw = dict[str, bytes]


def files_of(pack: Path) -> Raw:
    with zipfile.ZipFile(pack) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def repacked(path: Path, files: Raw) -> Path:
    """The files as a pack whose digests fit."""
    about = json.loads(files["pack.json"])
    about["files"] = {name: hashlib.sha256(files[name]).hexdigest() for name in files if name != "pack.json"}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in {**files, "pack.json": json.dumps(about).encode()}.items():
            archive.writestr(name, content)
    return path


def changed(name: str, change: Callable[[bytes], bytes]) -> Callable[[Raw], Raw]:
    return lambda files: {**files, name: change(files[name])}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (changed("episodes.jsonl", lambda rows: rows + b"\n" * 10_000_000), "is an empty line"),
        (changed("episodes.jsonl", lambda rows: rows + b" \t\r\n" * 1_000_000), "is an empty line"),
        (changed("episodes.jsonl", lambda rows: b"\n" + rows), "episodes.jsonl:1: is an empty line"),
        (changed("episodes.jsonl", lambda rows: rows + b" " * LARGEST_JSON + b"\n"), "more than 2,000,000 bytes"),
        (changed("episodes.jsonl", lambda rows: rows + b"x" * (LARGEST_ROW + 1)), "more than 2,000,000 bytes"),
        (changed("report.json", lambda text: text + b" " * LARGEST_JSON), "report.json contains more than 64,000,000"),
        (changed("results.json", lambda text: b"\n" * LARGEST_JSON + text), "results.json contains more than"),
        (changed("run.json", lambda text: text + b"\0" * LARGEST_JSON), "run.json contains more than"),
    ],
)
def test_a_pack_over_a_limit_is_one_line(
    made: tuple[Path, Path], tmp_path: Path, change: Callable[[Raw], Raw], error: str
) -> None:
    pack = repacked(tmp_path / "pack.zip", change(files_of(made[0])))
    assert pack.stat().st_size < 1_000_000
    for command in ("submit check", "leaderboard"):
        ran = bounded.medagent(*command.split(), pack)
        lines = [line for line in ran.lines if line.startswith("medagent: ")]
        assert (ran.code, len(lines)) == (1, 1), ran
        assert error in lines[0]
        assert str(pack) in lines[0]
        assert ran.memory < bounded.MEMORY


def test_an_archive_with_very_many_names_is_not_opened(made: tuple[Path, Path], tmp_path: Path) -> None:
    pack = tmp_path / "many.zip"
    entry = struct.pack("<4s4B4HL2L5H2L", b"PK\1\2", 20, 3, 20, 0, 0, 0, 0, 0, 0, 0, 0, 14, 0, 0, 0, 0, 0, 0)
    directory = b"".join(entry + b"results.%05d.j" % number for number in range(60_000))
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 60_000, 60_000, len(directory), 0, 0)
    pack.write_bytes(directory + end)
    ran = bounded.medagent("submit", "check", pack)
    assert ran.code == 1
    assert "lists too many files" in ran.lines[0]
    assert ran.memory < bounded.MEMORY


def test_a_run_that_could_not_be_checked_is_not_packed(made: tuple[Path, Path]) -> None:
    run = made[0].parent / "v1_r1_reference"
    journal = run / "episodes.jsonl"
    before = journal.read_bytes()
    try:
        journal.write_bytes(before + b"\n")
        ran = medagent("submit", "pack", run, "--out", made[0].with_name("refused.zip"))
    finally:
        journal.write_bytes(before)
    assert ran.code == 1
    assert "is an empty line" in ran.err
    assert not made[0].with_name("refused.zip").exists()
