"""The httpx client, on an EHR with three patients."""

import httpx
import pytest
from ehr_httpx import EhrClient, EhrError

PATIENTS = [
    {"resourceType": "Patient", "id": f"p{number}", "name": [{"family": family}]}
    for number, family in enumerate(["Ames", "Brown", "Cole"], 1)
]
pytestmark = pytest.mark.fhir(data=PATIENTS)


@pytest.fixture
def ehr(fhir_httpx):
    with httpx.Client(transport=fhir_httpx, base_url="https://ehr.example.org/r4/", timeout=2) as client:
        yield EhrClient(client)


def glucose(value, day):
    return {
        "resourceType": "Observation",
        "status": "final",
        "code": {"coding": [{"system": "http://loinc.org", "code": "2345-7"}]},
        "subject": {"reference": "Patient/p1"},
        "effectiveDateTime": f"2024-05-{day:02}",
        "valueQuantity": {"value": value, "unit": "mg/dL"},
    }


def test_latest_value_wins(fhir, ehr):
    for value, day in ((90, 1), (140, 3), (110, 2)):
        fhir.post(glucose(value, day))
    assert ehr.latest("p1", "2345-7") == 140
    assert ehr.latest("p2", "2345-7") is None


def test_all_pages_are_read(fhir, ehr):
    assert ehr.names() == ["Ames", "Brown", "Cole"]
    assert len(fhir.requests) == 2


def test_a_busy_server_is_asked_again(fhir, ehr):
    fhir.fail(on="Observation", status=503, times=2)
    assert ehr.latest("p1", "2345-7") is None
    assert [request.status for request in fhir.requests] == [503, 503, 200]


def test_too_many_requests(fhir, ehr):
    fhir.fail(status=429, retry_after=1, times=None)
    with pytest.raises(EhrError, match="429"):
        ehr.names()


@pytest.mark.parametrize("fault", ["drop", "truncate"])
def test_a_lost_answer_is_asked_for_again(fhir, ehr, fault):
    getattr(fhir, fault)(on="Patient")
    assert ehr.names() == ["Ames", "Brown", "Cole"]


def test_a_slow_server_is_given_up(fhir, ehr):
    fhir.delay(10, on="Patient", times=3)
    with pytest.raises(EhrError, match="timed out"):
        ehr.names()


def test_pages_that_have_expired(fhir, ehr, fhir_httpx):
    with httpx.Client(transport=fhir_httpx, base_url="https://ehr.example.org/r4/") as client:
        first = client.get("Patient?_count=2").json()
        following = next(link["url"] for link in first["link"] if link["relation"] == "next")
        assert following.startswith("https://ehr.example.org/r4?")
        fhir.expire_pages()
        assert client.get(following).status_code == 410


def test_a_change_by_another_client_is_not_overwritten(fhir, ehr):
    fhir.stale(on="Patient/p1")
    with pytest.raises(EhrError, match="409"):
        ehr.set_phone("p1", "555-0100")
    assert "telecom" not in fhir.get("Patient/p1")
    ehr.set_phone("p1", "555-0100")
    assert fhir.get("Patient/p1")["telecom"][0]["value"] == "555-0100"
