"""The httpx client against recorded answers of a server; `pytest --fhir-record` records them again.

The cassettes were recorded from `medagent serve --port 8080`. They contain no names, so no test can ask for one.
"""

import httpx
import pytest
from ehr_httpx import EhrClient

BASE = "http://localhost:8080/fhir"


@pytest.fixture
def ehr(fhir, fhir_httpx):
    fhir.record(base=BASE)
    with httpx.Client(transport=fhir_httpx, base_url="https://ehr.example.org/r4/", timeout=2) as client:
        yield EhrClient(client)


def test_latest_value_of_an_unknown_patient(fhir, ehr):
    assert ehr.latest("no-such-patient", "2345-7") is None
    assert str(fhir.requests[0]).startswith("GET Observation?patient=no-such-patient")


def test_the_hospital_has_glucose_values(ehr, fhir_httpx):
    with httpx.Client(transport=fhir_httpx) as client:
        bundle = client.get("http://any/fhir/Observation?code=GLU&_count=1").json()
    patient = bundle["entry"][0]["resource"]["subject"]["reference"].removeprefix("Patient/")
    assert ehr.latest(patient, "GLU") > 0


def test_faults_replace_recorded_answers(fhir, ehr):
    fhir.fail(times=2)
    assert ehr.latest("no-such-patient", "2345-7") is None
    assert [request.status for request in fhir.requests] == [503, 503, 200]
