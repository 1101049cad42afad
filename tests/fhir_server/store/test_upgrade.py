"""A file that an earlier version of the server made: one of format 1 is brought up to date when it is opened."""

from __future__ import annotations

import json
import lzma
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from fhir_server import Request, Server
from tests.shared_data import DATA


def get(server: Server, target: str) -> dict[str, object]:
    answer = server.handle(Request("GET", f"/fhir/{target}"))
    assert answer.status == 200, answer.text
    found: dict[str, object] = json.loads(answer.text)
    return found


def test_a_file_of_format_1_is_read_and_written(tmp_path: Path) -> None:
    file = tmp_path / "old.sqlite"
    file.write_bytes(lzma.decompress((DATA / "hapi" / "store-format-1.sqlite.xz").read_bytes()))
    for _ in range(2):
        with Server.open(file) as server:
            assert server.stats() == {"Observation": 1, "Patient": 1}
            assert get(server, "Patient?_summary=count")["total"] == 1
            assert get(server, "Patient/p/_history")["total"] == 2
            assert get(server, "Observation?patient=p&code=K&date=2023-11&value-quantity=4")["total"] == 1
            with server.overlay("x", datetime(2023, 11, 13, tzinfo=UTC)) as copy:
                body = b'{"resourceType": "Patient", "id": "p", "name": [{"family": "c"}]}'
                json_type = [("Content-Type", "application/fhir+json")]
                assert copy.handle(Request("PUT", "/fhir/Patient/p", json_type, body)).status == 200
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (4,)
