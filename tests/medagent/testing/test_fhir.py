"""The FHIR double: data, the test's own verbs, adapters, faults; each as a user's test would have it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
import requests
import respx

from medagent.core.errors import UserError
from medagent.testing import FhirData, FhirDouble, FhirStatusError

PATIENT = {"resourceType": "Patient", "id": "p1", "name": [{"family": "Smith"}]}
JSON = {"Content-Type": "application/fhir+json"}
PARTS = [b'{"resourceType":', b' "Patient"}']
BASE = "https://ehr.example.org/api/r4"


@pytest.fixture
def client(fhir: FhirDouble) -> Iterator[httpx.Client]:
    with httpx.Client(transport=fhir.transport(), base_url=BASE, timeout=1) as client:
        yield client


@pytest.mark.parametrize("form", ["dict", "list", "bundle", "model", "ndjson", "path"])
def test_data_of_every_form(form: str, fhir_data: FhirData, tmp_path: Path) -> None:
    from fhir.resources.R4B.patient import Patient

    second = {**PATIENT, "id": "p2"}
    file = tmp_path / "two.ndjson"
    file.write_text(f"{json.dumps(PATIENT)}\n{json.dumps(second)}\n", encoding="utf-8")
    bundle = {"resourceType": "Bundle", "type": "collection", "entry": [{"resource": PATIENT}, {"resource": second}]}
    source: Any = {
        "dict": PATIENT,
        "list": [PATIENT, second],
        "bundle": bundle,
        "model": [Patient.model_validate(PATIENT)],
        "ndjson": str(file),
        "path": file,
    }[form]
    with fhir_data.double(source) as fhir:
        assert len(fhir.search("Patient", family="Smith")) == (1 if form in ("dict", "model") else 2)
    assert fhir_data(source) is fhir_data(source)


def test_a_history_lists_the_version_that_the_test_wrote_before_the_loaded_one(fhir_data: FhirData) -> None:
    with fhir_data.double(PATIENT) as fhir:
        fhir.put({**PATIENT, "active": True})
        history = fhir.get("Patient/p1/_history")
    assert [entry["resource"]["meta"]["versionId"] for entry in history["entry"]] == ["2", "1"]


@pytest.mark.parametrize(
    ("source", "seed", "words"),
    [
        (7, None, "int: is not a resource"),
        ([{"resourceType": "Patient"}], None, "resource 1: .*id"),
        ({"resourceType": "Nothing", "id": "1"}, None, "resource 1: .*Nothing"),
        ({"id": "1"}, None, "is not a FHIR resource"),
        ("absent.ndjson", None, "absent.ndjson: cannot be read"),
        (PATIENT, 7, "seed= generates a hospital"),
    ],
)
def test_data_that_cannot_be_used(source: Any, seed: int | None, words: str) -> None:
    with FhirData() as data, pytest.raises(UserError, match=words):
        data(source, seed=seed)


@pytest.mark.long
@pytest.mark.fhir(seed=7)
def test_hospital_of_a_seed(fhir: FhirDouble, fhir_data: FhirData) -> None:
    assert len(fhir.search("Patient", _count=50)) == 100
    assert fhir_data(seed=7) is fhir_data("hospital", seed=7)


@pytest.mark.fhir(data=PATIENT)
def test_own_verbs(fhir: FhirDouble) -> None:
    created = fhir.post({"resourceType": "Observation", "status": "final", "code": {"text": "pulse"}})
    assert fhir.created() == fhir.created("Observation") == [fhir.get(f"Observation/{created['id']}")]
    fhir.put({**PATIENT, "gender": "male"})
    fhir.patch("Patient/p1", [{"op": "add", "path": "/active", "value": True}])
    patient = fhir.get("Patient/p1", as_model=True)
    assert (patient.gender, patient.active) == ("male", True)
    fhir.delete("Patient/p1")
    with pytest.raises(FhirStatusError, match="GET Patient/p1: 410 ") as caught:
        fhir.get("Patient/p1")
    assert caught.value.outcome["resourceType"] == "OperationOutcome"
    assert fhir.requests == []


@pytest.mark.fhir(data=PATIENT)
def test_what_another_test_wrote_is_not_there(fhir: FhirDouble) -> None:
    assert fhir.get("Patient/p1")["meta"]["versionId"] == "1"


def test_models_of_types_that_r4b_has_changed(fhir: FhirDouble) -> None:
    fhir.put({"resourceType": "EvidenceVariable", "id": "e", "status": "draft"})
    with pytest.raises(ValueError, match="EvidenceVariable: R4B"):
        fhir.search("EvidenceVariable", as_model=True)


def test_clock(fhir: FhirDouble) -> None:
    fhir.freeze(datetime(2031, 2, 3, tzinfo=UTC))
    assert fhir.post({"resourceType": "Patient"})["meta"]["lastUpdated"] == "2031-02-03T00:00:00.000+00:00"


@pytest.mark.fhir(data=PATIENT)
def test_requests_are_recorded_and_links_have_the_clients_base(fhir: FhirDouble, client: httpx.Client) -> None:
    bundle = client.get("Patient", params={"family": "Smith"}).json()
    assert bundle["link"][0]["url"] == f"{BASE}/Patient?family=Smith"
    assert bundle["entry"][0]["fullUrl"] == f"{BASE}/Patient/p1"
    assert client.post("", json={"resourceType": "Bundle", "type": "batch", "entry": []}).status_code == 200
    assert [(str(request), request.status) for request in fhir.requests] == [
        ("GET Patient?family=Smith", 200),
        ("POST ", 200),
    ]
    assert fhir.requests[1].json["type"] == "batch"


@pytest.mark.parametrize("base", ["https://x/interconnect/api/FHIR/R4", "http://x:1/Fhir/Prod", "https://x"])
@pytest.mark.fhir(data=PATIENT)
def test_any_base(fhir: FhirDouble, base: str) -> None:
    with httpx.Client(transport=fhir.transport()) as client:
        assert client.get(f"{base}/Patient?_id=p1").json()["entry"][0]["fullUrl"] == f"{base}/Patient/p1"
        assert client.get(f"{base}/metadata").json()["implementation"]["url"] == base
    assert [request.path for request in fhir.requests] == ["Patient?_id=p1", "metadata"]


def test_a_type_that_there_is_not(client: httpx.Client, fhir: FhirDouble) -> None:
    answer = client.get("Patients/1")
    assert (answer.status_code, "Unknown resource type" in answer.text) == (404, True)
    assert fhir.requests[0].path == "Patients/1"


@pytest.mark.fhir(data=PATIENT)
def test_asynchronous_client(fhir_httpx: Any) -> None:
    async def ask() -> int:
        async with httpx.AsyncClient(transport=fhir_httpx) as client:
            return (await client.get("http://any/Patient/p1")).status_code

    assert asyncio.run(ask()) == 200


@pytest.mark.fhir(data=PATIENT)
def test_respx(fhir: FhirDouble, respx_mock: respx.MockRouter) -> None:
    respx_mock.route(host="ehr.example.org").mock(side_effect=fhir.respx)
    assert httpx.get(f"{BASE}/Patient/p1").json()["id"] == "p1"
    fhir.drop()
    with pytest.raises(httpx.RemoteProtocolError):
        httpx.get(f"{BASE}/Patient/p1")


@pytest.mark.fhir(data=PATIENT, writes="ack")
def test_acknowledged_writes_are_not_kept(fhir: FhirDouble, client: httpx.Client) -> None:
    assert client.post("Patient", json={"resourceType": "Patient"}).status_code == 201
    assert client.delete("Patient/p1").status_code == 200
    assert (fhir.created(), fhir.get("Patient/p1")["id"]) == ([], "p1")
    assert client.post("Patient/_search", data={"family": "Smith"}).json()["total"] == 1


@pytest.mark.fhir(data=PATIENT)
def test_faults_befall_what_they_name(fhir: FhirDouble, client: httpx.Client) -> None:
    fhir.fail(on="Patient", method="POST", status=500, times=None)
    fhir.fail(status=429, retry_after=3, times=2)
    answers = [client.get("Observation"), client.post("Patient", json=PATIENT), client.get("Patient/p1")]
    assert [answer.status_code for answer in answers] == [429, 500, 429]
    assert answers[0].headers["Retry-After"] == "3"
    assert answers[1].json()["resourceType"] == "OperationOutcome"
    assert client.get("Patient/p1").status_code == 200
    assert client.post("Patient", json=PATIENT).status_code == 500
    assert fhir.created() == []


@pytest.mark.fhir(data=PATIENT)
def test_a_write_whose_answer_is_lost_has_been_carried_out(fhir: FhirDouble, client: httpx.Client) -> None:
    fhir.drop(on="Patient")
    with pytest.raises(httpx.RemoteProtocolError):
        client.post("Patient", json={"resourceType": "Patient"})
    assert [resource["resourceType"] for resource in fhir.created()] == ["Patient"]
    assert fhir.requests[0].status is None


@pytest.mark.fhir(data=PATIENT)
def test_stale_version(fhir: FhirDouble, client: httpx.Client) -> None:
    fhir.stale(on="Patient")
    etag = client.get("Patient/p1").headers["ETag"]
    assert client.put("Patient/p1", json=PATIENT, headers={"If-Match": etag}).status_code in (409, 412)
    assert client.put("Patient/p1", json=PATIENT, headers={"If-Match": 'W/"2"'}).status_code == 200


@pytest.mark.fhir(data=PATIENT)
def test_on_a_port(fhir: FhirDouble, fhir_url: str) -> None:
    with requests.Session() as session:
        assert session.get(f"{fhir_url}/Patient").json()["link"][0]["url"] == f"{fhir_url}/Patient"
        chunked = session.post(f"{fhir_url}/Patient", data=iter(PARTS), headers=JSON)
        assert chunked.status_code == 201
        assert session.head(f"{fhir_url}/Patient/p1").text == ""
        fhir.truncate()
        with pytest.raises(requests.exceptions.ChunkedEncodingError):
            session.get(f"{fhir_url}/Patient/p1")
        fhir.delay(60)
        with pytest.raises(requests.ReadTimeout):
            session.get(f"{fhir_url}/Patient/p1", timeout=0.05)
        fhir.drop()
        with pytest.raises(requests.ConnectionError):
            session.get(f"{fhir_url}/Patient/p1")
