"""What counts as read: replies in every form, pages, windows of time, and searches that leave something out."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from refsol.clinical.codes import LABORATORY
from refsol.history import HistoryMessage
from refsol.reads import (
    Query,
    Read,
    has_read,
    has_reading,
    reads_before_post,
    resource_in,
    searched,
    spares_time,
)
from tests.shared_data import SHARED, need

BASE = "http://localhost:8080/fhir"
NOW = datetime(2023, 11, 13, 10, 15, tzinfo=UTC)
START = datetime(2023, 11, 12, 10, 15, tzinfo=UTC)
MG = Query("Observation", "S1", "http://loinc.org|MG", window=(START, NOW), category=LABORATORY)
EVER = Query("Observation", "S1", "http://loinc.org|MG", category=LABORATORY)


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
    return {"resourceType": "Bundle", "entry": [{"resource": one} for one in resources], "link": links, **more}


def get(url: str, body: dict[str, Any] | None = None) -> Read:
    return Read(f"{BASE}/{url}", bundle() if body is None else body)


@pytest.mark.parametrize(
    "url",
    [
        "Observation?patient=S1&code=MG",
        "Observation?subject=Patient/S1&code=http://loinc.org%7CMG,K&_count=50&_sort=-date",
        "Observation?patient=S1",
        f"Observation?patient={BASE}/Patient/S1&category=laboratory",
        "Observation?patient:Patient=S1&code=MG&_include=Observation:subject&_pretty=true&_total=accurate",
        f"Observation?patient=S1&category={LABORATORY}",
        "Observation?patient.identifier=S1&code=MG&date=ge2023-11-12",
        "Observation?patient=S1&code=MG&date=ge2023-11-12T10:15:00%2B00:00&date=le2023-11-13",
        "Observation?patient=S1&code=MG&date=ge2023-11-12T10:15:00+00:00",
        "Patient?_id=S1&_revinclude=Observation:patient",
        "Patient?identifier=S1&_revinclude=Observation:subject",
        "Patient/S1/$everything?_count=5000",
        "Patient/S1/$everything?_type=Patient,Observation",
        f"Observation?patient=S2,{BASE}/Patient/S1&code=X%5C,Y,MG",
    ],
)
def test_searches_that_cover_the_window(url: str) -> None:
    assert searched([get(url)], MG)


@pytest.mark.parametrize(
    "url",
    [
        "Observation?patient=S2&code=MG",
        "Observation?code=MG",
        "Observation?patient=S1&code=K",
        "Observation?patient=S1&category=vital-signs",
        "Observation?patient=S1&code=MG&date=ge2023-11-13",
        "Observation?patient=S1&code=MG&date=gt2023-11-12",
        "Observation?patient=S1&code=MG&date=lt2023-11-13",
        "Observation?patient=S1&code=MG&date=2023-11-12",
        "Observation?patient=S1&code=MG&value-quantity=gt2",
        "Observation?patient=S1&code:text=MG",
        "Patient?_id=S1",
        "Patient?name=Ann&_revinclude=Observation:patient",
        "Observation?patient=S1&code=http://snomed.info/sct%7CMG",
        "Observation?patient=S1&code=%7CMG",
        "Observation?patient=S1&category=http://hl7.org/fhir/observation-category%7Claboratory",
        "Observation?patient.identifier=http://example.org%7CS1&code=MG",
        "Observation?subject=Group/S1&code=MG",
        "Observation?subject=http://elsewhere/fhir/Patient/S1&code=MG",
        "Observation?patient=S1&code=MG&_offset=5000",
        "Observation?patient=S1&_elements=status",
        "Observation?patient=S1&_summary=text",
        "Observation?patient=S1&code=MG&_lastUpdated=gt2030",
        "Patient?_id=S1&birthdate=1800-01-01&_revinclude=Observation:patient",
        "Patient?identifier=http://example.org%7CS1&_revinclude=Observation:patient",
        "Patient/S1/$everything?_since=2030-01-01",
        "Patient/S2/$everything",
        "Patient/S1/$everything?_type=Patient",
        "Condition?patient=S1",
        "http://[",
        f"Observation?patient=S1&code={BASE}/MG",
        f"Observation?patient={BASE}/S1&code=MG",
        f"Observation?patient.identifier={BASE}/S1&code=MG",
        f"Observation?subject:Patient._id={BASE}/Patient/S1&code=MG",
        f"Observation?subject=Patient/S1{BASE}/&code=MG",
        f"Observation?subject=X{BASE}/Patient/S1&code=MG",
        f"Patient?identifier={BASE}/S1&_revinclude=Observation:patient",
        "Observation?patient=S1&code=X%5C,MG",
        "Observation?patient=S1&code=http://loinc.org%5C%7CMG",
        "Observation?patient=X%5C,S1&code=MG",
        "Observation?patient.identifier=X%5C,S1&code=MG",
        "Observation?patient=S1&code=MG&date=X%5C,ge2023-11-12",
        "Patient?identifier=X%5C,S1&_revinclude=Observation:patient",
        "Patient/S1/$everything?_type=X%5C,Observation",
    ],
)
def test_searches_that_leave_something_out(url: str) -> None:
    assert not searched([get(url)], MG)


def test_a_bound_leaves_something_out_if_every_reading_counts() -> None:
    assert not searched([get("Observation?patient=S1&code=MG&date=ge2000-01-01")], EVER)
    assert searched([get("Observation?patient=S1&code=MG")], EVER)


@pytest.mark.parametrize(
    ("condition", "spares"),
    [
        ("ge2023", True),
        ("ge2023-11", True),
        ("sa2023-11-11", True),
        ("gt2023-11-12T10:15:00Z", True),
        ("ap2023-11-12", False),
        ("2023", True),
        ("eq2023-11", True),
        ("eb2023-11-14", True),
        ("le2023-12", True),
        ("ge2023-13-99", False),
        ("soon", False),
    ],
)
def test_dates_stand_for_the_time_that_they_name(condition: str, spares: bool) -> None:
    assert spares_time(condition, (START, NOW)) is spares


def test_every_page_is_read_or_the_newest_to_before_the_window() -> None:
    first = get("Observation?patient=S1&code=MG", bundle(following=f"{BASE}?_getpages=7&_getpagesoffset=20"))
    last = Read(f"{BASE}?_getpagesoffset=20&_getpages=7&_format=json", bundle())
    assert not searched([first], MG)
    assert searched([last, first], MG)
    newest = "Observation?patient=S1&_sort=-date"
    older = bundle(reading("2023-11-12T10:00:00+00:00", "K"), following=f"{BASE}?_getpages=8")
    assert searched([get(newest, older)], MG)
    assert not searched([get(newest, older)], EVER)
    assert not searched([get(newest, bundle(reading(), following=f"{BASE}?_getpages=8"))], MG)
    around = get("Observation?patient=S1", bundle(following=f"{BASE}/Observation?patient=S1"))
    assert not searched([around], MG), "pages in a circle have no end"


def test_a_count_says_only_that_there_is_none() -> None:
    for words in ("_summary=count", "_count=0"):
        assert searched([get(f"Observation?patient=S1&code=MG&{words}", bundle(total=0))], MG)
        assert not searched([get(f"Observation?patient=S1&code=MG&{words}", bundle(total=3))], MG)


def test_a_reading_is_of_the_patient_code_and_moment() -> None:
    read = [get("Observation?patient=S1", bundle(reading()))]
    assert has_reading(read, "S1", "MG", "2023-11-13T05:00:00+00:00")
    assert has_reading(read, "S1", "MG", "2023-11-13T05:00:00Z")
    assert has_reading([Read(f"{BASE}/Observation/o", reading())], "S1", "MG", "2023-11-13T05:00:00Z")
    for other in (("S2", "MG", "2023-11-13T05:00:00Z"), ("S1", "K", "2023-11-13T05:00:00Z"), ("S1", "MG", "2023")):
        assert not has_reading(read, *other)
    bare = {name: value for name, value in reading().items() if name != "subject"}
    assert has_reading([get("Observation?patient=S1&_elements=code", bundle(bare))], "S1", "MG", "2023-11-13T05:00:00Z")
    assert not has_reading([get("Observation?code=MG", bundle(bare))], "S1", "MG", "2023-11-13T05:00:00Z")


@pytest.mark.parametrize(
    ("kind", "value"),
    [("Observation", "valueQuantity"), ("Procedure", "performedPeriod"), ("MedicationRequest", "medicationReference")],
)
def test_a_resource_is_read_with_its_value(kind: str, value: str) -> None:
    bare: dict[str, Any] = {"resourceType": kind, "id": "7", "status": "final"}
    assert not has_read([get(f"{kind}?_elements=status", bundle(bare))], f"{kind}/7")
    assert has_read([get(kind, bundle({**bare, value: {}}))], f"{kind}/7")
    without = {name: one for name, one in reading().items() if name != "valueQuantity"}
    read = get("Observation?patient=S1&_elements=code,effectiveDateTime", bundle(without))
    assert not has_reading([read], "S1", "MG", "2023-11-13T05:00:00Z")


XML = """<Bundle xmlns="http://hl7.org/fhir"><link><relation value="next"/><url value="http://x?p=2"/></link><entry>
<resource><Observation><id value="o"/><code><coding><code value="MG"/></coding></code>
<subject><reference value="Patient/S1"/></subject><effectiveDateTime value="2023-11-13T05:00:00+00:00"/>
<valueQuantity><value value="1.8"/></valueQuantity></Observation></resource></entry></Bundle>"""


def test_replies_in_xml() -> None:
    body = resource_in(f"The answer:\n{XML}\nGo on.")
    assert body is not None
    read = Read(f"{BASE}/Observation?patient=S1&_format=xml", body)
    assert read.next_page == "http://x?p=2"
    assert has_reading([read], "S1", "MG", "2023-11-13T05:00:00Z")


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
        messages = [HistoryMessage(one["role"], one["content"]) for one in episode["messages"]]
        end = next((place for place, one in enumerate(messages) if one.is_post_action), len(messages))
        answered = [
            one for one in messages[:end] if one.content.startswith("Here is the response from the GET request")
        ]
        resources = [one for one in answered if "resourceType" in one.content]
        assert len(reads_before_post(messages)) == len(resources), episode["name"]
