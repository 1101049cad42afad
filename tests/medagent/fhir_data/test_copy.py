"""`medagent ehr copy`: a live server into a file, page by page, continued where it stopped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command import Ran, medagent
from tests.medagent.fhir_data.live import Fault, LiveServer
from tests.medagent.fhir_data.people import ward

WARD = ward(3, 150)
"""450 readings and 3 patients: three pages of readings."""


def well(number: int, target: str) -> Fault:
    return None


def copy(server: LiveServer, file: Path, *more: str) -> Ran:
    return medagent("ehr", "copy", "--from", server.url, file, *more)


def refused(ran: Ran) -> str:
    assert ran.code == 1
    assert "Traceback" not in ran.err
    return ran.err


def stored(server: LiveServer) -> list[str]:
    """What the server holds, a compact line each, in the order of a copy."""
    return [json.dumps(json.loads(line)) for kind in ("Observation", "Patient") for line in server.server.export(kind)]


def test_every_resource_comes_as_the_server_sends_it(tmp_path: Path) -> None:
    file = tmp_path / "copy.ndjson"
    with LiveServer(WARD) as server:
        ran = copy(server, file)
        held = stored(server)
    assert ran.out == f"{file}: 453 resources of 2 types\n"
    lines = file.read_text().splitlines()
    assert [json.dumps(json.loads(line)) for line in lines] == held
    assert all('"value":4.10' in line for line in lines[:450])
    assert list(tmp_path.iterdir()) == [file]


def test_a_stopped_copy_goes_on_where_it_stopped(tmp_path: Path) -> None:
    file, whole = tmp_path / "copy.ndjson", tmp_path / "whole.ndjson"
    with LiveServer(WARD, answers=lambda _, target: 500 if "_getpagesoffset=400" in target else None) as server:
        message = refused(copy(server, file))
        assert "_getpagesoffset=400" in message
        assert "answers 500" in message
        assert not file.exists()
        server.answers = well
        before = len(server.requests)
        assert copy(server, file).code == 0
        assert not any("Observation?_count" in target for _, target in server.requests[before:])
        assert copy(server, whole).code == 0
    assert file.read_bytes() == whole.read_bytes()


def test_what_a_killed_copy_wrote_after_its_mark_is_cut_off(tmp_path: Path) -> None:
    file = tmp_path / "copy.ndjson"
    with LiveServer(WARD, answers=lambda _, target: 500 if "_getpagesoffset=200" in target else None) as server:
        refused(copy(server, file))
        with (tmp_path / "copy.ndjson.parts" / "Observation.ndjson").open("a") as part:
            part.write('{"resourceType":"Obser')
        server.answers = well
        assert copy(server, file).code == 0
        assert [json.dumps(json.loads(line)) for line in file.read_text().splitlines()] == stored(server)


def test_a_page_that_the_server_has_forgotten_starts_its_type_anew(tmp_path: Path) -> None:
    file = tmp_path / "copy.ndjson"
    with LiveServer(WARD, answers=lambda _, target: 500 if "_getpagesoffset=400" in target else None) as server:
        refused(copy(server, file))
        forgotten = iter([410])
        server.answers = lambda _, target: next(forgotten, None) if "_getpages" in target else None
        assert copy(server, file).code == 0
        assert [json.dumps(json.loads(line)) for line in file.read_text().splitlines()] == stored(server)


def test_pages_that_are_too_large_are_asked_for_in_smaller_ones(tmp_path: Path) -> None:
    file = tmp_path / "copy.ndjson"
    scan = {"contentType": "image/png", "data": "QUJD" * 27_000}
    scans = [
        json.dumps({"resourceType": "DocumentReference", "id": f"d{n}", "content": [{"attachment": scan}]})
        for n in range(201)
    ]
    with LiveServer(scans) as server:
        assert copy(server, file).out == f"{file}: 201 resources of 1 types\n"
    assert len({json.loads(line)["id"] for line in file.read_text().splitlines()}) == 201


def test_a_server_behind_another_port_is_copied_whole(tmp_path: Path) -> None:
    file = tmp_path / "copy.ndjson"
    with LiveServer(WARD, base="http://hospital.example:8080/fhir") as server:
        assert copy(server, file).code == 0
    assert len(file.read_text().splitlines()) == 453


def test_a_server_that_changes_meanwhile_is_told_of(tmp_path: Path) -> None:
    with LiveServer(WARD[-3:]) as server:
        server.answers = lambda _, target: (200, b'{"total": 4}') if "Patient?_summary" in target else None
        assert (
            "3 resources of 1 types; the server changed meanwhile: Patient (3, counted 4)"
            in copy(server, tmp_path / "copy.ndjson").out
        )


def test_nothing_is_overwritten_and_no_two_servers_mixed(tmp_path: Path) -> None:
    file = tmp_path / "copy.ndjson"
    with LiveServer(WARD, answers=lambda _, target: 500 if "_getpages" in target else None) as server:
        refused(copy(server, file))
    with LiveServer(WARD) as second:
        assert "contains a part of a copy of http://" in refused(copy(second, file))
    file.write_text("mine")
    assert f"{file}: already exists" in refused(copy(second, file))
    assert file.read_text() == "mine"


NEXT = '{"resourceType":"Bundle","link":[{"relation":"next","url":"%s"}],"entry":[]}'


@pytest.mark.parametrize(
    ("where", "answer", "message"),
    [
        ("metadata", (200, b"<html>"), "does not answer with FHIR as JSON"),
        ("metadata", (200, b"[]"), "does not answer with FHIR as JSON"),
        (
            "metadata",
            (200, b'{"resourceType":"CapabilityStatement","rest":[{"resource":[5]}]}'),
            "is not a CapabilityStatement",
        ),
        ("_summary", (200, b"{}"), "does not state a total"),
        ("_summary", (403, b'{"issue":[{"diagnostics":"not for you"}]}'), "answers 403: not for you"),
        ("_count", (200, b'{"entry":[{"search":{"mode":"match"}}]}'), "does not answer with a searchset Bundle"),
        ("_count", (200, b'{"entry":5}'), "does not answer with a searchset Bundle"),
        ("_count", (200, b'{"link":[5]}'), "does not answer with a searchset Bundle"),
        (
            "_count",
            (200, (NEXT % "http://evil.example/other?x=1").encode()),
            "the link to its next page is outside the base",
        ),
        ("_count", (302, b""), "answers 302"),
    ],
)
def test_a_server_that_answers_oddly_is_refused(
    tmp_path: Path, where: str, answer: tuple[int, bytes], message: str
) -> None:
    with LiveServer(WARD[-3:], answers=lambda _, target: answer if where in target else None) as server:
        assert message in refused(copy(server, tmp_path / "copy.ndjson"))


def test_a_server_that_is_away_or_none_is_named(tmp_path: Path) -> None:
    file = tmp_path / "copy.ndjson"
    for url in ("localhost:8080", "file:///etc/passwd", "http://", "http://[::1/fhir"):
        assert f"{url}: is not a FHIR base" in refused(medagent("ehr", "copy", "--from", url, file))
    with LiveServer() as server:
        pass
    assert f"FHIR server {server.url} does not answer" in refused(copy(server, file))
    assert list(tmp_path.iterdir()) == []


def test_headers_and_token_are_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with LiveServer(WARD[-3:], token="secret") as server:
        assert "answers 401" in refused(copy(server, tmp_path / "no.ndjson"))
        assert copy(server, tmp_path / "header.ndjson", "--fhir-header", "Authorization: Bearer secret").code == 0
        monkeypatch.setenv("MEDAGENT_FHIR_TOKEN", "secret")
        assert copy(server, tmp_path / "token.ndjson").code == 0
        assert "write it as 'Name: value'" in refused(copy(server, tmp_path / "x.ndjson", "--fhir-header", "secret"))
