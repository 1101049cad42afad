"""The httpx client against answers that a server gave once; `pytest --fhir-record` asks it again.

The cassettes are of `medagent serve --port 8080`. Names are not in them, so no test may ask for one.
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


def test_latest_value_of_a_test_that_nobody_had(fhir, ehr):
    assert ehr.latest("no-such-patient", "2345-7") is None
    assert str(fhir.requests[0]).startswith("GET Observation?patient=no-such-patient")


def test_the_hospital_has_glucose_values(ehr, fhir_httpx):
    with httpx.Client(transport=fhir_httpx) as client:
        found = client.get("http://any/fhir/Observation?code=GLU&_count=1").json()
    patient = found["entry"][0]["resource"]["subject"]["reference"].removeprefix("Patient/")
    assert ehr.latest(patient, "GLU") > 0


def test_faults_befall_recorded_answers_too(fhir, ehr):
    fhir.fail(times=2)
    assert ehr.latest("no-such-patient", "2345-7") is None
    assert [request.status for request in fhir.requests] == [503, 503, 200]
