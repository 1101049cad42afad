"""A small compressed file that unpacks to much is refused with one line, before it takes memory or time."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests import bounded
from tests.command import medagent

PATIENT = b'{"resourceType": "Patient", "id": "a"}\n'


def packed(path: Path, *pieces: tuple[bytes, int]) -> Path:
    """A compressed file of pieces, each so many times."""
    with gzip.open(path, "wb", 1) as file:
        for piece, times in pieces:
            block = piece * max(1, min(times, (1 << 20) // len(piece)))
            for _ in range(times * len(piece) // len(block)):
                file.write(block)
    return path


@pytest.mark.parametrize(
    "pieces",
    [
        [(b" ", 200_000_000)],
        [(PATIENT, 1), (b"a", 200_000_000)],
        [(PATIENT, 2), (b"\n", 50_000_000)],
        [(b"\n", 50_000_000)],
        [(b"{\n", 1), (b"1234567890,\n", 10_000_000)],
        [(PATIENT[:-2] + b', "text": "', 1), (b"\xc3\xa9", 50_000_000)],
    ],
    ids=["blanks", "second line", "empty lines at the end", "only empty lines", "document", "text"],
)
@pytest.mark.parametrize("command", ["import", "grade"])
def test_a_file_over_a_limit_is_one_line(tmp_path: Path, pieces: list[tuple[bytes, int]], command: str) -> None:
    file = packed(tmp_path / "a.ndjson.gz", *pieces)
    words = {
        "import": ("ehr", "import", file, "--data", tmp_path / "a.sqlite"),
        "grade": ("grade", file),
    }[command]
    ran = bounded.medagent(*words)
    assert (ran.code, len(ran.lines)) == (1, 1), ran
    assert str(file) in ran.lines[0]
    assert ran.memory < bounded.MEMORY, ran
    if command == "import":
        assert "empty lines" in ran.lines[0] or "--max-line MB" in ran.lines[0]


def test_the_limit_is_an_option(tmp_path: Path) -> None:
    file = tmp_path / "a.ndjson"
    notes = [{"resourceType": "Patient", "id": str(number), "language": "x" * 1_500_000} for number in range(2)]
    file.write_text("".join(f"{json.dumps(note)}\n" for note in notes))
    refused = medagent("ehr", "import", file, "--data", tmp_path / "a.sqlite", "--max-line", 1)
    assert refused.code == 1
    assert f"{file}:1: the line has more than 1,000,000 bytes" in refused.err
    assert medagent("ehr", "import", file, "--data", tmp_path / "a.sqlite", "--max-line", 2).code == 0
