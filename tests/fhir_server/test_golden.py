"""Exchanges recorded from HAPI FHIR 7.6.0, replayed in process: the same statuses, headers and bodies."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest

from fhir_server import Request, Response, Server
from tests.shared_data import DATA, ROOT, read_xz

HELD_HEADERS = ("content-type", "etag", "location", "content-location")
BLANKS = [
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "<uuid>"),
    (re.compile(r'("(?:lastUpdated|lastModified)": ?)"[^"]*"'), r'\1"<now>"'),
    (re.compile(r"deleted at [0-9T:.+Z-]+"), "deleted at <now>"),
    (re.compile(r"Took [\d,]+ms"), "Took <n>ms"),
    (re.compile(r'("source": ?"[^"#]*)#[A-Za-z0-9]+"'), r'\1#<request>"'),
    # Which form of the path HAPI names depends on which of two parameters it met first.
    (re.compile(r"\.where\(resolve\(\) is [A-Za-z]+\)"), ""),
]


def blanked(text: str) -> str:
    for pattern, replacement in BLANKS:
        text = pattern.sub(replacement, text)
    return text


@dataclass
class Result:
    rows: int = 0
    different: list[int] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    headers: list[tuple[int, str]] = field(default_factory=list)


def full_urls(text: str) -> list[str]:
    return sorted(entry["fullUrl"] for entry in json.loads(text).get("entry", []))


def send(server: Server, request: dict[str, Any], target: str) -> Response:
    body = None if request["body"] is None else request["body"].encode()
    headers = [("Accept", "*/*"), *request["headers"].items()]
    return server.handle(Request(request["method"], target, headers, body or b""))


def next_page(text: str) -> str:
    links = {link["relation"]: link["url"] for link in json.loads(text)["link"]}
    parts = urlsplit(links["next"])
    return f"{parts.path}?{parts.query}"


def hold(result: Result, exchange: dict[str, Any], answer: Response) -> None:
    number, expected = exchange["n"], exchange["response"]
    result.rows += 1
    if answer.status != expected["status"]:
        result.statuses.append(number)
    if exchange.get("compare") == "entries":
        same = full_urls(answer.text) == full_urls(expected["body"])
    else:
        same = blanked(answer.text) == blanked(expected["body"])
    if answer.status != expected["status"] or not same:
        result.different.append(number)
        return
    for name in HELD_HEADERS:
        if name in expected["headers"] and expected["body"]:
            given = blanked(answer.header(name) or "")
            if given != blanked(expected["headers"][name]):
                result.headers.append((number, name))


@pytest.fixture(scope="module")
def result() -> Result:
    found = Result()
    with Server.open(None) as server:
        for line in read_xz(DATA / "hapi" / "data.ndjson.xz").splitlines():
            resource = json.loads(line)
            target = f"/fhir/{resource['resourceType']}/{resource['id']}"
            loaded = server.handle(Request("PUT", target, [("Content-Type", "application/fhir+json")], line.encode()))
            assert loaded.status == 201, loaded.text
        last = ""
        for line in read_xz(DATA / "hapi" / "exchanges.jsonl.xz").splitlines():
            exchange = json.loads(line)
            url = exchange["request"]["url"]
            target = "/fhir" + ("/" if url and not url.startswith("?") else "") + url
            if exchange["group"].endswith("/next"):
                target = next_page(last)
            answer = send(server, exchange["request"], target)
            last = answer.text
            if exchange.get("compare") != "skip":
                hold(found, exchange, answer)
    return found


def test_every_status_is_equal(result: Result) -> None:
    assert result.rows == 706
    assert result.statuses == []


def test_every_header_is_equal(result: Result) -> None:
    assert result.headers == []


def test_only_documented_rows_differ(result: Result) -> None:
    page = (ROOT / "docs" / "hapi-record.md").read_text("utf-8")
    documented = {int(number) for number in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)}
    assert set(result.different) <= documented
    assert len(result.different) <= 0.03 * result.rows
