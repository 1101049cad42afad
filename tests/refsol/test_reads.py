"""What counts as read: replies in every format, and the pages of a search."""

from __future__ import annotations

import json
from typing import Any

import pytest

from refsol.history import HistoryMessage
from refsol.reads import Read, pages, reads_before_post, resource_in
from tests.shared_data import SHARED, need

BASE = "http://localhost:8080/fhir"


def reading(time: str = "2023-11-13T05:00:00+00:00", code: str = "MG", patient: str = "S1") -> dict[str, Any]:
    coding = [{"system": "http://loinc.org", "code": code}]
    return {
        "resourceType": "Observation",
        "id": "o",
        "subject": {"reference": f"Patient/{patient}"},
        "code": {"coding": coding},
        "effectiveDateTime": time,
        "valueQuantity": {"value": 1.8},
    }


def bundle(*resources: dict[str, Any], following: str = "", **more: Any) -> dict[str, Any]:
    links = [{"relation": "next", "url": following}] if following else []
    return {
        "resourceType": "Bundle",
        "entry": [{"resource": resource} for resource in resources],
        "link": links,
        **more,
    }


def get(url: str, body: dict[str, Any] | None = None) -> Read:
    return Read(f"{BASE}/{url}", bundle() if body is None else body)


def test_the_pages_of_a_search_are_found_by_their_links() -> None:
    first = get("Observation?patient=S1&code=MG", bundle(following=f"{BASE}?_getpages=7&_getpagesoffset=20"))
    last = Read(f"{BASE}?_getpagesoffset=20&_getpages=7&_format=json", bundle())
    assert pages([first], first) == ([first], False)
    assert pages([last, first], first) == ([first, last], True)
    around = get("Observation?patient=S1", bundle(following=f"{BASE}/Observation?patient=S1"))
    assert pages([around], around) == ([around], False), "pages in a circle have no end"


def test_a_read_has_parameters_and_resources() -> None:
    read = get("Observation?code=MG&code=K&_sort=-date", bundle(reading()))
    assert read.parameters == {"code": ["MG", "K"], "_sort": ["-date"]}
    assert [resource["id"] for resource in read.resources] == ["o"]
    assert Read(f"{BASE}/Observation/o", reading()).is_bundle is False
    assert Read("http://[", bundle()).parameters == {}


XML = """<Bundle xmlns="http://hl7.org/fhir"><link><relation value="next"/><url value="http://x?p=2"/></link><entry>
<resource><Observation><id value="o"/><code><coding><code value="MG"/></coding></code>
<subject><reference value="Patient/S1"/></subject><effectiveDateTime value="2023-11-13T05:00:00+00:00"/>
<valueQuantity><value value="1.8"/></valueQuantity></Observation></resource></entry></Bundle>"""


def test_replies_in_xml() -> None:
    body = resource_in(f"The answer:\n{XML}\nGo on.")
    assert body is not None
    read = Read(f"{BASE}/Observation?patient=S1&_format=xml", body)
    assert read.next_page == "http://x?p=2"
    (resource,) = read.resources
    assert (resource["id"], resource["valueQuantity"]) == ("o", {"value": "1.8"})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no resource",
        "{",
        '{"a": 1}',
        "[]",
        '{"resourceType": 7}',
        "<Bundle>",
        '<!DOCTYPE x [<!ENTITY a "b">]><Bundle/>',
        "<",
        "{" * 100_000,
    ],
)
def test_replies_without_a_resource(text: str) -> None:
    assert resource_in(text) is None


def said(*texts: str) -> list[HistoryMessage]:
    return [HistoryMessage("agent" if place % 2 else "user", text) for place, text in enumerate(texts)]


def test_reads_end_at_the_first_post() -> None:
    body = json.dumps(bundle(reading()))
    reply = f"The server answers the GET with:\n{body}\n\nCall FINISH."
    texts = [
        "prompt",
        f"GET {BASE}/A",
        reply,
        f"```tool_code\nGET {BASE}/B\n```",
        reply,
        "POST x\n{}",
        "ok",
        f"GET {BASE}/C",
        reply,
    ]
    assert [read.url for read in reads_before_post(said(*texts))] == [f"{BASE}/A", f"{BASE}/B"]


def test_errors_and_what_an_agent_says_itself_are_no_reads() -> None:
    forged = json.dumps(bundle(reading()))
    refused = json.dumps({"resourceType": "OperationOutcome"})
    texts = ["prompt", f"GET {BASE}/{forged}", f"The GET failed: {forged} is no URL", f"GET {BASE}/x", refused]
    assert reads_before_post(said(*texts)) == []
    alone = [HistoryMessage("agent", f"GET {BASE}/x"), HistoryMessage("agent", forged)]
    assert reads_before_post(alone) == []


@pytest.mark.parametrize("name", ["transcripts.jsonl", "transcripts_odd.jsonl"])
def test_every_answered_get_of_the_published_runner_is_a_read(name: str) -> None:
    for line in need(SHARED / "medagentbench" / name).read_text(encoding="utf-8").splitlines():
        episode = json.loads(line)
        messages = [HistoryMessage(message["role"], message["content"]) for message in episode["messages"]]
        end = next((place for place, message in enumerate(messages) if message.is_post_action), len(messages))
        answered = [
            message
            for message in messages[:end]
            if message.content.startswith("Here is the response from the GET request")
        ]
        resources = [message for message in answered if "resourceType" in message.content]
        assert len(reads_before_post(messages)) == len(resources), episode["name"]
