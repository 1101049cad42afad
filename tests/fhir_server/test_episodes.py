"""Records by path: private, with a token of their own, logged, dropped when nobody asks."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from fhir_server import Request, Server
from fhir_server.__main__ import main
from fhir_server.access import Access
from fhir_server.episodes import Episodes, Record, ServerWithEpisodes, StoredVersion

PATIENT = {"resourceType": "Patient", "id": "a", "name": [{"family": "Smith"}]}
BASIC = {"resourceType": "Basic", "code": {"text": "x"}}
NOW = datetime(2023, 11, 13, 10, 15, tzinfo=UTC)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server.open(None, "http://testserver/fhir") as server:
        server.load([json.dumps(PATIENT)])
        yield server


@pytest.fixture
def episodes(server: Server) -> Iterator[Episodes]:
    episodes = Episodes(server)
    yield episodes
    episodes.close_all()


def ask(
    episodes: Episodes, record: Record, method: str, path: str, body: Any = None, token: str | None = None
) -> tuple[int, Any]:
    headers = [("Authorization", f"Bearer {token or record.token}"), ("Content-Type", "application/fhir+json")]
    target = urlsplit(record.base).path + path
    sent = b"" if body is None else json.dumps(body).encode()
    response = episodes.handle(Request(method, target, headers, sent))
    return response.status, json.loads(response.body) if response.body else None


def test_what_is_written_to_a_record_is_seen_there_only(episodes: Episodes) -> None:
    first, second = episodes.open(now=NOW), episodes.open(now=NOW)
    status, made = ask(episodes, first, "POST", "/Basic", BASIC)
    assert status == 201
    assert made["meta"]["lastUpdated"] == "2023-11-13T10:15:00.000+00:00"
    assert ask(episodes, first, "GET", "/Basic?_summary=count")[1]["total"] == 1
    assert ask(episodes, second, "GET", "/Basic?_summary=count")[1]["total"] == 0
    bundle = ask(episodes, second, "GET", "/Patient")[1]
    assert bundle["entry"][0]["fullUrl"] == f"{second.base}/Patient/a"


def test_what_is_updated_in_a_record_is_not_found_by_what_it_was(server: Server, episodes: Episodes) -> None:
    """The record's own index rows hide those of the shared patients below it."""
    seen = {"resourceType": "Observation", "id": "o", "status": "final", "code": {"text": "glucose"}}
    server.load([json.dumps({**seen, "effectiveDateTime": "2023-01-01"})])
    first, second = episodes.open(now=NOW), episodes.open(now=NOW)
    assert ask(episodes, first, "PUT", "/Observation/o", {**seen, "effectiveDateTime": "2023-06-01"})[0] == 200

    def found(record: Record, date: str) -> int:
        total: int = ask(episodes, record, "GET", f"/Observation?date={date}")[1]["total"]
        return total

    assert [found(first, date) for date in ("2023-01-01", "2023-06-01", "lt2023-03-01")] == [0, 1, 0]
    assert [found(second, date) for date in ("2023-01-01", "2023-06-01", "lt2023-03-01")] == [1, 0, 1]


def test_a_record_wants_its_own_token(episodes: Episodes) -> None:
    first, second = episodes.open(), episodes.open()
    assert first.token not in repr(first)
    for token in ("", second.token, "x"):
        assert ask(episodes, first, "GET", "/Patient/a", token=token or " ")[0] == 401
    assert first.exchanges == []


def test_every_version_that_a_request_stores_is_logged(episodes: Episodes) -> None:
    record = episodes.open(now=NOW)
    number = ask(episodes, record, "POST", "/Basic", BASIC)[1]["id"]
    ask(episodes, record, "PUT", "/Patient/a", {**PATIENT, "active": True})
    ask(episodes, record, "DELETE", f"/Basic/{number}")
    entry = {"request": {"method": "POST", "url": "Basic"}, "resource": BASIC}
    ask(episodes, record, "POST", "", {"resourceType": "Bundle", "type": "transaction", "entry": [entry, entry]})
    ask(episodes, record, "POST", "/Basic", {"resourceType": "Nonsense"})
    ask(episodes, record, "GET", "/Patient/a")
    logged = [
        (exchange.method, exchange.status, [(v.type, v.version) for v in exchange.stored])
        for exchange in record.exchanges
    ]
    assert logged == [
        ("POST", 201, [("Basic", 1)]),
        ("PUT", 200, [("Patient", 2)]),
        ("DELETE", 200, [("Basic", 2)]),
        ("POST", 200, [("Basic", 1), ("Basic", 1)]),
        ("POST", 400, []),
        ("GET", 200, []),
    ]
    made, changed, deleted = (exchange.stored[0] for exchange in record.exchanges[:3])
    assert (made.resource or {})["code"] == {"text": "x"}
    assert (changed.resource or {})["active"] is True
    assert deleted == StoredVersion("Basic", number, 2, None)
    assert deleted.resource is None


def test_ids_and_times_derive_from_the_seed(episodes: Episodes) -> None:
    answers = []
    for _ in range(2):
        record = episodes.open(seed="task1_1#1", now=NOW)
        answers.append([ask(episodes, record, "POST", "/Basic", BASIC), ask(episodes, record, "GET", "/Basic/1")])
    assert answers[0] == answers[1]


def test_a_request_may_be_refused_by_who_opened_the_record(episodes: Episodes) -> None:
    record = episodes.open(refuse=lambda method, path: f"no {method} of {path}" if method == "PUT" else None)
    status, outcome = ask(episodes, record, "PUT", "/Patient/a?x=1", PATIENT)
    assert status == 405
    assert outcome["issue"][0]["diagnostics"] == "no PUT of /Patient/a"
    assert ask(episodes, record, "GET", "/Patient/a")[0] == 200


def test_a_record_is_gone_when_closed_or_idle(server: Server) -> None:
    episodes = Episodes(server, idle=0.0)
    idle = episodes.open()
    assert ask(episodes, idle, "GET", "/Patient/a")[0] == 404
    lasting = Episodes(server)
    record = lasting.open()
    ask(lasting, record, "POST", "/Basic", BASIC)
    lasting.close(record.id)
    lasting.close(record.id)
    assert ask(lasting, record, "GET", "/Patient/a")[0] == 404
    assert len(record.exchanges) == 1


def test_records_take_so_much_and_no_more(episodes: Episodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fhir_server.episodes.LOGGED", 100)
    monkeypatch.setattr("fhir_server.episodes.MOST", 1)
    record = episodes.open()
    assert ask(episodes, record, "GET", "/Patient/a")[0] == 200
    assert ask(episodes, record, "GET", "/Patient/a")[0] == 429
    with pytest.raises(Exception, match="episodes are open"):
        episodes.open()


def test_a_costly_request_is_refused(episodes: Episodes) -> None:
    entry = {"request": {"method": "GET", "url": "Patient/a"}}
    bundle = {"resourceType": "Bundle", "type": "batch", "entry": [entry] * 501}
    status, outcome = ask(episodes, episodes.open(), "POST", "", bundle)
    assert status == 413
    assert "at most 500 entries" in outcome["issue"][0]["diagnostics"]


def fetch(server: ServerWithEpisodes, method: str, path: str, token: str = "secret", **options: Any) -> httpx.Response:
    async def run() -> httpx.Response:
        transport = httpx.ASGITransport(Access("secret", episodes=True).application(server))
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://testserver", headers=headers) as client:
            return await client.request(method, path, **options)

    return asyncio.run(run())


def test_a_server_opens_records_for_who_has_its_token(server: Server) -> None:
    managed = ServerWithEpisodes(server)
    assert fetch(managed, "POST", "/episodes", token="wrong").status_code == 401
    opened = fetch(managed, "POST", "/episodes", json={"seed": "s", "now": NOW.isoformat()}).json()
    assert opened["base"] == f"http://testserver/episodes/{opened['id']}/fhir"
    assert fetch(managed, "GET", opened["base"] + "/Patient/a").status_code == 401, "not by the server's token"
    assert fetch(managed, "POST", opened["base"] + "/Basic", opened["token"], json=BASIC).status_code == 201
    search = fetch(managed, "POST", opened["base"] + "/Basic/_search", opened["token"], data={"_id": "1"})
    assert search.status_code == 200
    answer = fetch(managed, "GET", f"/episodes/{opened['id']}", opened["token"])
    assert answer.status_code == 401, "an agent does not read the log"
    log = fetch(managed, "GET", f"/episodes/{opened['id']}").json()
    assert log["requests"] == 2
    [write] = log["writes"]
    assert (write["method"], write["target"], json.loads(write["body"]), write["status"]) == (
        "POST",
        "/Basic",
        BASIC,
        201,
    )
    assert write["stored"][0]["resource"]["code"] == {"text": "x"}
    assert fetch(managed, "DELETE", f"/episodes/{opened['id']}").json() == log
    assert fetch(managed, "DELETE", f"/episodes/{opened['id']}").status_code == 404
    assert fetch(managed, "GET", opened["base"] + "/Patient/a", opened["token"]).status_code == 404


@pytest.mark.parametrize("body", ["[]", "{", '{"now": "2023-11-13"}', '{"now": 1}', '{"seed": 1}'])
def test_what_opens_no_record(server: Server, body: str) -> None:
    assert fetch(ServerWithEpisodes(server), "POST", "/episodes", content=body).status_code == 400


def test_the_data_under_records_are_only_read(server: Server) -> None:
    managed = ServerWithEpisodes(server)
    assert fetch(managed, "GET", "/fhir/Patient/a").status_code == 200
    refused = fetch(managed, "POST", "/fhir/Basic", json=BASIC)
    assert refused.status_code == 403
    assert "POST /episodes opens" in refused.json()["issue"][0]["diagnostics"]
    assert fetch(managed, "PUT", "/episodes").status_code == 405


def test_episodes_need_a_token(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--data", str(tmp_path / "a.sqlite"), "--episodes"]) == 1
    assert "--episodes needs --token" in capsys.readouterr().err


def test_episodes_of_a_server_in_its_own_process(tmp_path: Path) -> None:
    data = tmp_path / "store.sqlite"
    with Server.open(data) as server:
        server.load([json.dumps(PATIENT)])
    words = ["--data", str(data), "--port", "0", "--episodes", "--token", "secret"]
    process = subprocess.Popen([sys.executable, "-m", "fhir_server", *words], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        root = process.stderr.readline().split()[1].replace("localhost", "127.0.0.1").removesuffix("/fhir")
        manager = {"Authorization": "Bearer secret"}
        opened = httpx.post(f"{root}/episodes", headers=manager, timeout=30).json()
        base, agent = opened["base"].replace("localhost", "127.0.0.1"), {"Authorization": f"Bearer {opened['token']}"}
        made = [httpx.post(f"{base}/Basic", json=BASIC, headers=agent).status_code for _ in range(6)]
        assert made == [201] * 6, "each over a connection of its own"
        assert httpx.get(f"{base}/Basic?_summary=count", headers=agent).json()["total"] == 6
        assert httpx.get(f"{root}/fhir/Basic?_summary=count", headers=manager).json()["total"] == 0
        assert httpx.post(f"{root}/fhir/Basic", json=BASIC, headers=manager).status_code == 403
        assert httpx.get(f"{root}/fhir/Patient/a", headers=agent).status_code == 401
        assert len(httpx.delete(f"{root}/episodes/{opened['id']}", headers=manager).json()["writes"]) == 6
    finally:
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    assert said == ""
