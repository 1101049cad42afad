"""Fifty clients at once over HTTP: no error, and every write is there afterwards."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

CLIENTS = 50
HEADERS = {"Content-Type": "application/fhir+json"}


@pytest.fixture
def base(tmp_path: Path) -> Iterator[str]:
    """The address of a server in a process of its own."""
    command = [sys.executable, "-m", "fhir_server", "--data", str(tmp_path / "store.sqlite"), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        yield process.stderr.readline().split()[1]
        process.terminate()


class Client:
    """One connection; it knows the versions it has written."""

    def __init__(self, base: str, number: int) -> None:
        parts = urlsplit(base)
        self._connection = http.client.HTTPConnection("127.0.0.1", parts.port, timeout=60)
        self.mine = f"/fhir/Patient/client-{number}"
        self.version = 0
        self.created: list[str] = []
        self.statuses: Counter[int] = Counter()

    def send(self, method: str, path: str, body: object = None) -> dict[str, object]:
        """Sends a request and reads its answer."""
        self._connection.request(method, path, None if body is None else json.dumps(body), HEADERS)
        answer = self._connection.getresponse()
        self.statuses[answer.status] += 1
        found: dict[str, object] = json.loads(answer.read())
        return found

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()

    def round(self) -> None:
        """A create, an update of its own resource, a read, and a transaction of the two."""
        created = self.send("POST", "/fhir/Patient", {"resourceType": "Patient", "active": True})
        self.created.append(str(created["id"]))
        self.version += 1
        patient = {"resourceType": "Patient", "id": self.mine.rpartition("/")[2], "multipleBirthInteger": self.version}
        self.send("PUT", self.mine, patient)
        assert self.send("GET", self.mine)["multipleBirthInteger"] == self.version
        self.version += 1
        entries = [
            {"resource": {"resourceType": "Patient"}, "request": {"method": "POST", "url": "Patient"}},
            {
                "resource": {**patient, "multipleBirthInteger": self.version},
                "request": {"method": "PUT", "url": self.mine.removeprefix("/fhir/")},
            },
        ]
        bundle = {"resourceType": "Bundle", "type": "transaction", "entry": entries}
        answer = self.send("POST", "/fhir", bundle)
        assert isinstance(answer["entry"], list)
        self.created.append(answer["entry"][0]["response"]["location"].split("/")[1])


def drive(base: str, rounds: int | None, seconds: float = 0) -> list[Client]:
    """Lets all clients do their rounds side by side, so many or for so long."""
    clients = [Client(base, number) for number in range(CLIENTS)]
    end = time.monotonic() + seconds

    def work(client: Client) -> Client:
        done = 0
        with closing(client):
            while done < rounds if rounds is not None else time.monotonic() < end:
                client.round()
                done += 1
        return client

    with ThreadPoolExecutor(CLIENTS) as pool:
        return list(pool.map(work, clients))


def check(base: str, clients: list[Client]) -> None:
    """Nothing failed, no id was given twice, and the store has exactly what was written."""
    assert sum((client.statuses for client in clients), Counter()).keys() <= {200, 201}
    created = [name for client in clients for name in client.created]
    assert len(set(created)) == len(created)
    with closing(Client(base, CLIENTS)) as reader:
        assert reader.send("GET", "/fhir/Patient?_summary=count")["total"] == len(created) + CLIENTS
        assert all(reader.send("GET", f"/fhir/Patient/{name}")["id"] == name for name in created[::7])
        for client in clients:
            assert reader.send("GET", client.mine)["multipleBirthInteger"] == client.version
            assert reader.send("GET", f"{client.mine}/_history?_count=1")["total"] == client.version


def test_fifty_clients_lose_no_write(base: str) -> None:
    check(base, drive(base, rounds=8))


@pytest.mark.long
def test_fifty_clients_for_a_minute(base: str) -> None:
    check(base, drive(base, rounds=None, seconds=60))
