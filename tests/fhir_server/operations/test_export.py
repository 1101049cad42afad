"""`$export`: orders, their status, the files, and what a live HAPI FHIR 7.6.0 answers to the same requests."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fhir_server import Response, Server
from fhir_server.__main__ import main
from fhir_server.interactions import exports
from fhir_server.processes import export
from tests.fhir_server.ward import said, send, ward

LATER = {"Prefer": "respond-async"}
GROUP = {"resourceType": "Group", "type": "person", "actual": True, "id": "g"}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Three patients with an observation each; o0's performer is a practitioner; p7 and p9 are in a group."""
    with ward() as server:
        doctor = {"resourceType": "Practitioner", "id": "d"}
        colleague = {"resourceType": "Practitioner", "id": "e"}
        note = {
            "resourceType": "Observation",
            "id": "o0",
            "status": "final",
            "code": {"text": "x"},
            "subject": {"reference": "Patient/p7"},
            "performer": [{"reference": "Practitioner/d"}],
        }
        members = [{"entity": {"reference": f"Patient/{name}"}} for name in ("p7", "p9")]
        for resource in (doctor, colleague, note, GROUP | {"member": members}):
            assert send(server, "PUT", f"{resource['resourceType']}/{resource['id']}", resource).status in (200, 201)
        server.offer_exports()
        yield server


def path(address: str | None) -> str:
    assert address is not None
    return address.rpartition("/fhir/")[2]


def finished(server: Server, target: str, method: str = "GET", body: Any = None) -> tuple[str, dict[str, Any]]:
    """Orders an export and waits for it: the address of its status, and the list of its files."""
    answer = send(server, method, target, body, **LATER)
    assert (answer.status, answer.body) == (202, b""), answer.text
    status = path(answer.header("Content-Location"))
    while (answer := send(server, "GET", status)).status == 202:
        assert answer.header("Retry-After")
        assert (answer.header("X-Progress") or "").startswith("Build in progress - Status set to ")
        time.sleep(0.05)
    assert (answer.status, answer.header("Content-Type")) == (200, "application/json"), answer.text
    return status, json.loads(answer.text)


def lines(server: Server, manifest: dict[str, Any]) -> list[dict[str, Any]]:
    found = []
    for output in manifest["output"]:
        answer = send(server, "GET", path(output["url"]))
        assert (answer.status, answer.header("Content-Type")) == (200, "application/fhir+ndjson")
        resources = [json.loads(line) for line in answer.text.splitlines()]
        assert {resource["resourceType"] for resource in resources} == {output["type"]}
        found += resources
    return found


def names(resources: list[dict[str, Any]]) -> set[str]:
    return {f"{resource['resourceType']}/{resource['id']}" for resource in resources}


def test_everything_is_exported_as_it_is_read(server: Server) -> None:
    _, manifest = finished(server, "$export")
    assert {"transactionTime", "request", "requiresAccessToken", "output", "error"} == manifest.keys()
    assert manifest["request"] == "http://localhost:8080/fhir/$export"
    assert (manifest["requiresAccessToken"], manifest["error"]) == (False, [])
    found = lines(server, manifest)
    assert len(found) == sum(server.stats().values())
    for resource in found:
        assert resource == json.loads(send(server, "GET", f"{resource['resourceType']}/{resource['id']}").text)


PEOPLE = {"Patient/p7", "Patient/p8", "Patient/p9"}
NOTES = {"Observation/o0", "Observation/o1", "Observation/o2"}


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("Patient/$export", PEOPLE | NOTES | {"Practitioner/d"}),
        # HAPI exports the Group itself too, and the Practitioners and Organizations that the rest refers to.
        (
            "Group/g/$export",
            (PEOPLE | NOTES | {"Practitioner/d", "Group/g"}) - {"Patient/p8", "Observation/o1"},
        ),
        ("Patient/p8/$export", {"Patient/p8", "Observation/o1"}),
        ("$export?_type=Practitioner,Group", {"Practitioner/d", "Practitioner/e", "Group/g"}),
        ("Group/g/$export?_type=Patient", {"Patient/p7", "Patient/p9"}),
        ("$export?_since=2100-01-01T00:00:00Z", set()),
        ("$export?_type=Patient&_since=2020-01-01T00:00:00%2B01:00&_outputFormat=application/fhir%2Bndjson", PEOPLE),
        ("$export?_type=Patient&_bogus=1", PEOPLE),
    ],
)
def test_levels_and_parameters(server: Server, target: str, expected: set[str]) -> None:
    assert names(lines(server, finished(server, target)[1])) == expected


def test_since_is_when_a_resource_changed(server: Server) -> None:
    time.sleep(0.002)
    send(server, "PUT", "Patient/p8", {"resourceType": "Patient", "id": "p8", "gender": "other"})
    changed = json.loads(send(server, "GET", "Patient/p8").text)["meta"]["lastUpdated"]
    since = changed.replace("+", "%2B")
    assert names(lines(server, finished(server, f"$export?_since={since}")[1])) == {"Patient/p8"}


def test_an_order_by_post(server: Server) -> None:
    values = [{"name": "_type", "valueString": "Patient"}, {"name": "_type", "valueString": "Group"}]
    body = {"resourceType": "Parameters", "parameter": values}
    assert names(lines(server, finished(server, "$export", "POST", body)[1])) == PEOPLE | {"Group/g"}


@pytest.mark.parametrize(
    ("target", "headers", "status", "words"),
    [
        ("$export", {}, 400, "HAPI-0513: Must request async processing for $export"),
        (
            "$export?_type=Patient,Foo",
            LATER,
            400,
            "HAPI-2039: Failed to validate parameters for job of type BULK_EXPORT: \n"
            " * Resource type Foo is not a supported resource type!",
        ),
        (
            "$export?_outputFormat=csv",
            LATER,
            400,
            "HAPI-2039: Failed to validate parameters for job of type BULK_EXPORT: \n"
            " * The only allowed format for Bulk Export is currently application/fhir+ndjson",
        ),
        ("$export?_since=x", LATER, 400, 'Invalid date/time format: "x"'),
        ("$export?_typeFilter=Patient%3Fgender%3Dmale", LATER, 400, "This server does not filter exports"),
        ("Group/nope/$export", LATER, 404, "HAPI-2001: Resource Group/nope is not known"),
        (
            "Observation/$export",
            LATER,
            400,
            "Invalid request: The FHIR endpoint on this server does not know how to handle GET"
            " operation[Observation/$export] with parameters [[]]",
        ),
        (
            "$export-poll-status?_jobId=nope",
            {},
            404,
            "HAPI-2040: Unknown instance ID: nope. Please check if the input job ID is valid.",
        ),
        ("$export-poll-status", {}, 404, "HAPI-2040"),
        ("$export-file?_jobId=nope&_file=0", {}, 404, "HAPI-2040"),
    ],
)
def test_what_is_refused(server: Server, target: str, headers: dict[str, str], status: int, words: str) -> None:
    found = said(send(server, "GET", target, **headers))
    assert (found[0], found[1][: len(words)]) == (status, words)


def test_an_export_is_dropped_and_its_files_with_it(server: Server) -> None:
    status, manifest = finished(server, "$export?_type=Patient")
    assert said(send(server, "GET", path(manifest["output"][0]["url"])[:-1] + "7"))[0] == 404
    assert send(server, "DELETE", status).status == 202
    for target in (status, path(manifest["output"][0]["url"])):
        assert said(send(server, "GET", target))[0] == 404


def test_files_have_a_limited_length(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "LENGTH", 1)
    export.write(server.store.path, tmp_path, exports.ExportSelection(("Patient", "Observation")))
    assert json.loads((tmp_path / "manifest.json").read_text()) == ["Patient"] * 3 + ["Observation"] * 3
    assert [len((tmp_path / f"{number}.ndjson").read_text().splitlines()) for number in range(6)] == [1] * 6


def test_only_so_many_are_written_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    with Server.open(None) as server:
        server.offer_exports()
        monkeypatch.setattr(exports, "RUNNING", 0)
        assert said(send(server, "GET", "$export", **LATER))[0] == 429
        monkeypatch.setattr(exports, "RUNNING", 2)
        monkeypatch.setattr(exports, "MAX_EXPORTS", 1)
        first, _ = finished(server, "$export?_type=Patient")
        second, manifest = finished(server, "$export?_type=Patient")
        assert manifest["output"] == []
        assert (send(server, "GET", first).status, send(server, "GET", second).status) == (404, 200)


def test_an_export_that_fails_is_said(capfd: pytest.CaptureFixture[str]) -> None:
    with Server.open(None) as server:
        server.offer_exports()
        assert server.context.exports is not None
        server.context.exports.start("x", exports.ExportSelection(("Patient",)), "r", 0, authorized=False)
        found = server.context.exports.find("x")
        assert found is not None
        found.folder.rename(found.folder.with_name("gone"))
        found.process.wait()
        answer: Response = send(server, "GET", "$export-poll-status?_jobId=x")
        found.folder.with_name("gone").rename(found.folder)
        assert said(answer) == (500, "The export could not be written: see the server's own messages")
    printed = capfd.readouterr().err
    assert (printed[:45], printed.count("\n")) == ("fhir_server: an export could not be written: ", 1)


@pytest.mark.parametrize("target", ["$export", "Patient/$export", "Group/g/$export", "$export-poll-status?_jobId=x"])
def test_it_is_off_unless_it_is_asked_for(target: str) -> None:
    with ward() as server:
        status, words = said(send(server, "GET", target, **LATER))
        assert (status, words[:16]) == (400, "Invalid request:")
        assert "$export" not in send(server, "GET", "metadata").text
        assert '"name": "export"' not in send(server, "GET", "metadata").text
        server.offer_exports()
        assert '"name": "export"' in send(server, "GET", "metadata").text


def test_episodes_and_exports_exclude_each_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--data", str(tmp_path / "x.sqlite"), "--episodes", "--token", "t", "--export"]
    assert main(options) == 1
    assert capsys.readouterr().err.count("\n") == 1
