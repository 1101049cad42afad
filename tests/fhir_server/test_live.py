"""Rows recorded beside a live HAPI FHIR 7.6.0 (tools/hapi_diff), replayed in process: every answer is the same."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from fhir_server import Request, Response, Server
from fhir_server.clock import SteppingClock
from tests.shared_data import DATA, read_xz
from tools.hapi_diff.client import HELD_HEADERS, blanked
from tools.hapi_diff.record import RECORDINGS
from tools.hapi_diff.servers import without_given_ids

BASE = "http://localhost:8080/fhir"
JSON = [("Content-Type", "application/fhir+json")]


def differences(recording: str) -> list[str]:
    """What differs between the answers here and those of a recording, in a server with the recorded data."""
    found = []
    with Server.open(None) as server:
        server.context.clock = SteppingClock(
            datetime(2026, 1, 1, tzinfo=UTC)
        )  # HAPI has no two writes in a millisecond
        for line in read_xz(DATA / "hapi" / "data.ndjson.xz").splitlines():
            resource = json.loads(line)
            target = f"/fhir/{resource['resourceType']}/{resource['id']}"
            assert server.handle(Request("PUT", target, JSON, line.encode())).status == 201
        for line in read_xz(DATA / "hapi" / recording).splitlines():
            row = json.loads(line)
            answer = send(server, row["request"])
            found += difference(row, answer)
    return found


def send(server: Server, request: dict[str, Any]) -> Response:
    url = request["url"].replace(" ", "%20")
    target = "/fhir" + ("/" if url and not url.startswith("?") else "") + url
    headers = [("Accept", "*/*"), *request["headers"].items()]
    return server.handle(Request(request["method"], target, headers, (request["body"] or "").encode()))


def difference(row: dict[str, Any], answer: Response) -> list[str]:
    """What is not as HAPI answered, named by the rule and the request."""
    wanted, name = row["response"], f"{row['rule']}: {row['request']['method']} {row['request']['url']}"
    if answer.status != wanted["status"]:
        return [f"{name}: {answer.status} for {wanted['status']}"]
    if without_given_ids(blanked(answer.text, BASE)) != wanted["body"]:
        return [f"{name}: the body"]
    given = {key: answer.header(key) for key in HELD_HEADERS if answer.header(key)}
    given = {key: without_given_ids(blanked(str(value), BASE)) for key, value in given.items()}
    if "last-modified" in given:
        given["last-modified"] = "<now>"
    return [] if given == wanted["headers"] else [f"{name}: headers {given} for {wanted['headers']}"]


@pytest.mark.parametrize("recording", RECORDINGS.values())
def test_every_answer_is_hapis(recording: str) -> None:
    assert differences(recording) == []
