"""The requests client: through an adapter, and over a port."""

import pytest
import requests
from ehr_requests import record_pressure

BASE = "https://ehr.example.org/fhir"
PATIENT = {"resourceType": "Patient", "id": "p1"}
pytestmark = pytest.mark.fhir(data=PATIENT)


@pytest.fixture
def session(fhir):
    with requests.Session() as session:
        session.mount("https://ehr.example.org", fhir.requests_adapter())
        yield session


def test_pressure_is_recorded(fhir, session):
    name = record_pressure(session, BASE, "p1", 128)
    assert [observation["id"] for observation in fhir.created("Observation")] == [name]
    assert fhir.search("Observation", patient="p1")[0]["valueQuantity"]["value"] == 128


def test_unknown_patient_is_refused(fhir, session):
    with pytest.raises(requests.HTTPError, match="400"):
        record_pressure(session, BASE, "nobody", 128)
    assert fhir.created() == []


@pytest.mark.parametrize(
    ("fault", "error"),
    [("drop", requests.ConnectionError), ("truncate", requests.exceptions.ChunkedEncodingError)],
)
def test_connection_that_breaks(fhir, session, fault, error):
    getattr(fhir, fault)(method="POST")
    with pytest.raises(error):
        record_pressure(session, BASE, "p1", 128)


def test_slow_server(fhir, session):
    fhir.delay(60)
    with pytest.raises(requests.ReadTimeout):
        record_pressure(session, BASE, "p1", 128)


def test_over_a_port(fhir, fhir_url):
    with requests.Session() as session:
        name = record_pressure(session, fhir_url, "p1", 131)
        fhir.drop()
        with pytest.raises(requests.ConnectionError):
            record_pressure(session, fhir_url, "p1", 132)
    assert fhir.created("Observation")[0]["id"] == name
