"""Bodies that a HAPI server sent to a benchmark's agents, rebuilt from the resources they contain."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from fhir_server import Request, Server
from tests.shared_data import SHARED, need

RECORDED = SHARED / "hapi" / "recorded_medagentbench_image.jsonl"
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
BUNDLE_TIME = re.compile(r'^(  "meta": \{\n    "lastUpdated": )"[^"]+"', re.MULTILINE)


def blanked(text: str) -> str:
    return UUID.sub("<uuid>", BUNDLE_TIME.sub(r'\1"<now>"', text))


@pytest.fixture(scope="module")
def recorded() -> list[dict[str, str]]:
    need(RECORDED)
    return [json.loads(line) for line in RECORDED.read_text("utf-8").splitlines()]


@pytest.fixture(scope="module")
def server(recorded: list[dict[str, str]], tmp_path_factory: pytest.TempPathFactory):
    found: dict[str, str] = {}
    for row in recorded:
        # Decimals as text keep their digits; the server reads a number in quotes as a number.
        body = json.loads(row["body"], parse_float=str)
        for entry in body.get("entry", []):
            found[entry["fullUrl"]] = json.dumps(entry["resource"])
        if any(link["relation"] == "next" for link in body.get("link", [])):
            # One more match, so that there is a next page.
            more = json.loads(found[body["entry"][-1]["fullUrl"]]) | {"id": "one-more"}
            found["one-more"] = json.dumps(more)
    path = Path(tmp_path_factory.mktemp("recorded")) / "store.sqlite"
    with Server.open(path) as server:
        assert server.load(found.values()) == len(found)
        yield server


def test_there_are_79(recorded: list[dict[str, str]]) -> None:
    assert len(recorded) == 79


@pytest.mark.parametrize("number", range(79))
def test_body_is_the_same(number: int, server: Server, recorded: list[dict[str, str]]) -> None:
    url, expected = recorded[number]["get"], recorded[number]["body"]
    target = url.removeprefix("http://localhost:8080") + "&_format=json"
    answer = server.handle(Request("GET", target))
    assert blanked(answer.text) == blanked(expected)
