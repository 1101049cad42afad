"""`medagent ehr push`: FHIR data into a live server by transactions, continued where it stopped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fhir_server import Server
from medagent.core.paths import cache_dir
from tests.command import Ran, medagent
from tests.medagent.fhir_data.live import Fault, LiveServer
from tests.medagent.fhir_data.people import observation, patient, ward


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDAGENT_HOME", str(tmp_path / "home"))


def push(server: LiveServer, file: Path, *more: str) -> Ran:
    return medagent("ehr", "push", "--to", server.url, "--ehr", file, *more)


def written(folder: Path, *lines: str) -> Path:
    path = folder / "data.ndjson"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def refused(ran: Ran) -> str:
    assert ran.code == 1
    assert "Traceback" not in ran.err
    return ran.err


def transactions(server: LiveServer) -> int:
    return sum(method == "POST" for method, _ in server.requests)


class FailingAt:
    """Refuses the n-th POST (the only requests to the base itself), once."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.posts = 0

    def __call__(self, _: int, target: str) -> Fault:
        if target.rstrip("/") != "/fhir":
            return None
        self.posts += 1
        return (400, b'{"issue":[{"diagnostics":"HAPI-0000: no"}]}') if self.posts == self.number else None


def test_what_is_referred_to_goes_first(tmp_path: Path) -> None:
    with LiveServer() as server:
        ran = push(server, written(tmp_path, *ward(4, 280)))
        assert ran.code == 0, ran.err
        assert ran.out == f"{server.url}: 1124 resources loaded\n"
        assert "about 500 resources a second" in ran.err
        assert server.server.stats() == {"Observation": 1120, "Patient": 4}
        assert transactions(server) == 3
        assert any('"value": 4.10' in line for line in server.server.export("Observation"))
    assert list((cache_dir() / "push").iterdir()) == []


def test_circles_go_in_one_transaction(tmp_path: Path) -> None:
    circle = [
        patient(f"p{n}", link=[{"other": {"reference": f"Patient/p{(n + 1) % 700}"}, "type": "seealso"}])
        for n in range(700)
    ]
    with LiveServer() as server:
        assert push(server, written(tmp_path, *circle, patient("alone"))).code == 0
        assert server.server.stats() == {"Patient": 701}


def test_ids_of_digits_get_a_letter_and_so_do_references(tmp_path: Path) -> None:
    with LiveServer() as server:
        ran = push(server, written(tmp_path, observation("17", "42"), patient("42"), observation("o", "42")))
        assert ran.code == 0, ran.err
        assert "2 ids of digits only get the prefix x" in ran.err
        readings = [json.loads(line) for line in server.server.export("Observation")]
    assert {reading["id"] for reading in readings} == {"x17", "o"}
    assert {reading["subject"]["reference"] for reading in readings} == {"Patient/x42"}


def test_a_stopped_push_goes_on_where_it_stopped(tmp_path: Path) -> None:
    file = written(tmp_path, *ward(4, 280))
    with LiveServer(answers=FailingAt(3)) as server:
        message = refused(push(server, file))
        assert "(400: HAPI-0000: no); 1000 are loaded" in message
        (state,) = (cache_dir() / "push").iterdir()
        assert str(state) in message
        ran = push(server, file)
        assert ran.code == 0
        assert "1000 resources are already loaded; continuing" in ran.err
        assert transactions(server) == 4
        assert server.server.stats() == {"Observation": 1120, "Patient": 4}
        versions = {json.loads(line)["meta"]["versionId"] for line in server.server.export("Observation")}
    assert versions == {"1"}


def test_a_server_that_was_made_anew_gets_all(tmp_path: Path) -> None:
    file = written(tmp_path, *ward(4, 280))
    with LiveServer(answers=FailingAt(3)) as server:
        refused(push(server, file))
        server.server.close()
        server.server = Server.open(None, base=server.url)
        ran = push(server, file)
        assert ran.code == 0, ran.err
        assert "going on" not in ran.err
        assert server.server.stats() == {"Observation": 1120, "Patient": 4}


def test_large_resources_go_in_more_transactions(tmp_path: Path) -> None:
    scan = {"attachment": {"contentType": "image/png", "data": "QUJD" * 400_000}}
    scans = [json.dumps({"resourceType": "DocumentReference", "id": f"d{n}", "content": [scan]}) for n in range(13)]
    with LiveServer() as server:
        assert push(server, written(tmp_path, *scans)).code == 0
        assert transactions(server) == 3
        assert server.server.stats() == {"DocumentReference": 13}


def test_every_packing_and_store_can_be_pushed(tmp_path: Path) -> None:
    data = tmp_path / "a.sqlite"
    assert medagent("ehr", "import", written(tmp_path, *ward(1, 3)), "--data", data).code == 0
    with LiveServer() as server:
        assert push(server, data).code == 0
        assert server.server.stats() == {"Observation": 3, "Patient": 1}


def test_a_busy_server_is_asked_again(tmp_path: Path) -> None:
    busy = iter([503])
    with LiveServer(answers=lambda _, target: next(busy, None) if target.rstrip("/") == "/fhir" else None) as server:
        assert push(server, written(tmp_path, *ward(1, 3))).code == 0
        assert transactions(server) == 2


def test_the_token_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with LiveServer(token="secret") as server:
        file = written(tmp_path, patient("p"), patient("q"))
        assert "answers 401" in refused(push(server, file))
        monkeypatch.setenv("MEDAGENT_FHIR_TOKEN", "secret")
        assert push(server, file).code == 0


BAD = {
    "absent reference": ([observation("o", "nobody"), patient("p")], "HAPI-1094"),
    "twice": ([patient("p"), patient("p")], ":2: duplicate resource Patient/p"),
    "no id": ([patient("p"), '{"resourceType":"Patient"}'], ":2: is not a resource with an id"),
    "broken": ([patient("p"), '{"resourceType":'], ":2: is not a resource with an id"),
    "number as id": ([patient("p"), '{"resourceType":"Patient","id":7}'], ":2: is not a resource with an id"),
    "nothing": (['{"resourceType":"Bundle","type":"batch"}'], "data.ndjson: contains no resource"),
    "prefix taken": ([patient("7"), patient("x7")], "an id of digits only, prefixed with x, is another resource's"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_data_is_refused(tmp_path: Path, name: str) -> None:
    lines, message = BAD[name]
    with LiveServer() as server:
        assert message in refused(push(server, written(tmp_path, *lines)))
        assert server.server.stats() == {}


def test_a_server_that_is_away_is_named(tmp_path: Path) -> None:
    with LiveServer() as server:
        pass
    assert f"FHIR server {server.url} does not answer" in refused(push(server, written(tmp_path, *ward(1, 1))))
    assert "absent.ndjson: cannot be read" in refused(push(server, tmp_path / "absent.ndjson"))
