"""Systems and URIs are stored once, also if a write that brought one is undone or happens in an overlay."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fhir_server import Overlay, Request, Server
from fhir_server.store.store import RESOURCES_AT_ONCE

NOW = datetime(2026, 1, 1, tzinfo=UTC)
JSON = [("Content-Type", "application/fhir+json")]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server.open(tmp_path / "store.sqlite") as server:
        yield server


def send(server: Server | Overlay, method: str, path: str, resource: dict[str, Any] | None = None) -> dict[str, Any]:
    body = json.dumps(resource).encode() if resource else b""
    return dict(json.loads(server.handle(Request(method, f"/fhir/{path}", JSON, body)).text))


def found(server: Server | Overlay, query: str) -> list[str]:
    return [entry["resource"]["id"] for entry in send(server, "GET", query).get("entry", [])]


def coded(name: str, system: str, profile: str = "") -> dict[str, Any]:
    meta = {"meta": {"profile": [profile]}} if profile else {}
    code = {"coding": [{"system": system, "code": "k"}]}
    return {"resourceType": "Basic", "id": name, **meta, "code": code}


def put(server: Server | Overlay, resource: dict[str, Any]) -> None:
    assert send(server, "PUT", f"Basic/{resource['id']}", resource)["id"] == resource["id"]


def sorted_and_below(server: Server | Overlay) -> tuple[list[str], list[str]]:
    return found(server, "Basic?_sort=code"), found(server, "Basic?_profile:below=http://own/p")


def test_what_a_failed_transaction_brought_can_be_written_again(server: Server) -> None:
    put(server, coded("z", "http://own/3"))
    names = [f"n{number}" for number in range(RESOURCES_AT_ONCE)]  # so many are written before the last one fails
    entries: list[dict[str, Any]] = [
        {
            "resource": coded(name, "urn:2", "http://own/p/2"),
            "request": {"method": "PUT", "url": f"Basic/{name}"},
        }
        for name in names
    ]
    stale = {"method": "PUT", "url": "Basic/z", "ifMatch": 'W/"9"'}
    entries.append({"resource": coded("z", "http://own/3"), "request": stale})
    refused = send(server, "POST", "", {"resourceType": "Bundle", "type": "transaction", "entry": entries})
    assert refused["resourceType"] == "OperationOutcome"
    put(server, coded("a", "urn:2", "http://own/p/2"))
    put(server, coded("b", "urn:1"))
    assert sorted_and_below(server) == (["z", "b", "a"], ["a"])


def test_an_overlay_knows_those_of_the_file_and_its_own(server: Server) -> None:
    put(server, coded("a", "http://own/2", "http://own/p/2"))
    overlay = server.overlay("one", NOW)
    for _ in range(2):  # also after `close`, which drops what it wrote
        with overlay:
            put(overlay, coded("b", "http://own/1", "http://own/p/1"))
            put(overlay, coded("c", "http://own/3", "http://own/p/2"))
            assert sorted_and_below(overlay) == (["b", "a", "c"], ["a", "b", "c"])
    assert sorted_and_below(server) == (["a"], ["a"])


def test_another_process_reads_what_this_one_brought(server: Server, tmp_path: Path) -> None:
    with Server.open(tmp_path / "store.sqlite") as second:
        put(second, coded("a", "http://own/2", "http://own/p/2"))
        put(server, coded("b", "http://own/2", "http://own/p/2"))
        put(second, coded("c", "http://own/1"))
        assert sorted_and_below(server) == sorted_and_below(second) == (["c", "a", "b"], ["a", "b"])


def test_an_update_and_a_deletion_remove_the_old_rows(server: Server) -> None:
    put(server, coded("a", "http://own/1", "http://own/p/1"))
    put(server, coded("a", "http://own/2", "http://own/p/2"))
    assert found(server, "Basic?code=http://own/1|k") == found(server, "Basic?_profile=http://own/p/1") == []
    assert found(server, "Basic?code=http://own/2|") == found(server, "Basic?_profile=http://own/p/2") == ["a"]
    send(server, "DELETE", "Basic/a")
    assert found(server, "Basic?code=http://own/2|k") == []


@given(st.lists(st.sampled_from(["", "http://a", "http://a/b", "http://a/b/c", "urn:x", "http://ä"]), max_size=6))
def test_uris_match_as_their_texts_do(uris: list[str]) -> None:
    with Server.open(None) as server:
        for number, uri in enumerate(uris):
            put(server, coded(f"r{number}", uri or "urn:none", uri))
        for wanted in ("http://a", "http://a/b"):
            below = [f"r{number}" for number, uri in enumerate(uris) if uri.startswith(wanted)]
            assert found(server, f"Basic?_profile:below={wanted}") == below
            assert found(server, f"Basic?_profile={wanted}") == [
                name for name in below if uris[int(name[1:])] == wanted
            ]
