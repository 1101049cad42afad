"""Packs as whoever alters one makes them: checksums and digests fit what the files hold."""

from __future__ import annotations

import hashlib
import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

from medagent.benchmarks.medagentbench.submission.pack import PACK, write_archive

Files = dict[str, Any]
"""A pack's files: `episodes.jsonl` as a list of rows, the others as JSON."""


def read(pack: Path) -> Files:
    with zipfile.ZipFile(pack) as archive:
        files: Files = {name: archive.read(name) for name in archive.namelist()}
    rows = [json.loads(line) for line in files.pop("episodes.jsonl").splitlines()]
    return {**{name: json.loads(content) for name, content in files.items()}, "episodes.jsonl": rows}


def line(number: int, row: dict[str, Any]) -> bytes:
    """A row of a journal whose own number and checksum hold."""
    kept = {name: value for name, value in row.items() if name not in ("row", "format", "crc32")}
    body = json.dumps({**kept, "row": number}, separators=(",", ":")).encode()[:-1]
    return body + b',"format":3,"crc32":"%08x"}\n' % zlib.crc32(body)


def write(path: Path, files: Files) -> Path:
    """A pack whose own digests hold, as whoever alters one would make it."""
    raw = {
        name: json.dumps(content).encode() for name, content in files.items() if name not in (PACK, "episodes.jsonl")
    }
    raw["episodes.jsonl"] = b"".join(line(*numbered) for numbered in enumerate(files["episodes.jsonl"], 1))
    report = json.loads(raw["report.json"])
    report["journals"] = {"episodes.jsonl": f"{len(raw['episodes.jsonl'])}:{zlib.crc32(raw['episodes.jsonl']):08x}"}
    raw["report.json"] = json.dumps(report).encode()
    about = {**files[PACK], "files": {name: hashlib.sha256(content).hexdigest() for name, content in raw.items()}}
    write_archive(path, {**raw, PACK: json.dumps(about).encode()})
    return path
