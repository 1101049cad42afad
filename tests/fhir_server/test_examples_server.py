"""The official R4 examples sent through the server: what real HAPI stored, refused and found (hapi/examples.jsonl).

Of what HAPI stored the recording has only its own text; of the eight it refused, or does not show, the original files
(HL7, CC0) are packed beside the tests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from fhir_server import Request, Response, Server
from tests.shared_data import DATA, SHARED, need, read_xz


@cache
def lines() -> list[dict[str, Any]]:
    text = need(SHARED / "hapi" / "examples.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


@cache
def originals() -> dict[tuple[str, str], str]:
    """The files that were refused or are not shown, by type and id."""
    texts = read_xz(DATA / "hapi" / "refused_examples.ndjson.xz").splitlines()
    found = ((json.loads(text), text) for text in texts)
    return {(resource["resourceType"], resource["id"]): text for resource, text in found}


def put_and_read(server: Server, line: dict[str, Any]) -> Response:
    """What the recording has: the answer to a read, or the refusal of the write before it."""
    target = f"/fhir/{line['type']}/{line['id']}"
    body = line["body"] if line["status"] == 200 else originals()[line["type"], line["id"]]
    put = server.handle(Request("PUT", target, [("Content-Type", "application/fhir+json")], body.encode()))
    return put if put.status >= 400 else server.handle(Request("GET", target))


def blanked(text: str) -> str:
    return re.sub(r'\n  "meta": \{\n(    .*\n)*  \},?', "", text, count=1)


Sent = tuple[Server, list[tuple[dict[str, Any], Response]]]


@pytest.fixture(scope="module")
def sent() -> Iterator[Sent]:
    with Server.open(None, reference_check=False) as server:
        yield server, [(line, put_and_read(server, line)) for line in lines() if "file" in line]


def test_every_text_and_every_refusal_is_hapis(sent: Sent) -> None:
    answers = sent[1]
    assert len(answers) == 228
    wrong = [
        line["file"]
        for line, answer in answers
        if (answer.status, blanked(answer.text)) != (line["status"], blanked(line["body"]))
    ]
    assert not wrong


def test_every_search_for_what_has_a_parameter_is_hapis(sent: Sent) -> None:
    wrong = []
    searches = [line for line in lines() if "param" in line]
    for line in searches:
        target = f"/fhir/{line['type']}?{line['param']}:missing=false&_count=500"
        entries = json.loads(sent[0].handle(Request("GET", target)).text).get("entry", [])
        found = {entry["resource"]["id"] for entry in entries}
        if found != set(line["ids"]):
            wrong.append((line["type"], line["param"], found ^ set(line["ids"])))
    assert not wrong
    assert len(searches) == 1280


def test_missing_is_the_rest(sent: Sent) -> None:
    """`:missing=true` finds what `:missing=false` does not; nothing is found by both."""
    server = sent[0]
    for kind, param in [("Observation", "code-value-string"), ("Observation", "code"), ("Claim", "patient")]:
        totals = []
        for query in (f"{param}:missing=false&", f"{param}:missing=true&", ""):
            answer = server.handle(Request("GET", f"/fhir/{kind}?{query}_summary=count"))
            totals.append(json.loads(answer.text)["total"])
        assert totals[0] + totals[1] == totals[2]
