"""The fhirpy client. It needs a port, since fhirpy opens its own connections."""

import pytest
import requests
from ehr_fhirpy import connected, deactivate, high_results
from fhirpy.base.exceptions import OperationOutcome, ResourceNotFound

PATIENTS = [{"resourceType": "Patient", "id": f"p{number}", "active": True} for number in (1, 2)]
RESULTS = [
    {
        "resourceType": "Observation",
        "id": f"o{number}",
        "status": "final",
        "code": {"coding": [{"system": "http://loinc.org", "code": "2345-7"}]},
        "subject": {"reference": f"Patient/{patient}"},
        "valueQuantity": {"value": value, "unit": "mg/dL"},
    }
    for number, (patient, value) in enumerate([("p1", 190), ("p1", 210), ("p2", 90)])
]
pytestmark = pytest.mark.fhir(data=[*PATIENTS, *RESULTS])


@pytest.fixture
def ehr(fhir_url):
    return connected(fhir_url, timeout=0.2)


def test_every_page_is_read(fhir, ehr):
    assert high_results(ehr, "2345-7", 180) == {"Patient/p1": 210}
    assert len(fhir.requests) == 2


def test_errors_of_the_server(fhir, ehr):
    fhir.fail(on="Observation", status=500)
    with pytest.raises(OperationOutcome, match="injected: 500"):
        high_results(ehr, "2345-7", 180)
    fhir.fail(status=429, retry_after=1)
    with pytest.raises(OperationOutcome, match="injected: 429"):
        high_results(ehr, "2345-7", 180)


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("drop", requests.ConnectionError),
        ("truncate", requests.exceptions.ChunkedEncodingError),
    ],
)
def test_connection_that_breaks(fhir, ehr, fault, error):
    getattr(fhir, fault)(on="Observation")
    with pytest.raises(error):
        high_results(ehr, "2345-7", 180)
    assert high_results(ehr, "2345-7", 180)


def test_slow_server(fhir, ehr):
    fhir.delay(60)
    with pytest.raises(requests.ReadTimeout):
        high_results(ehr, "2345-7", 180)


def test_a_page_that_has_expired(fhir, ehr):
    pages = iter(ehr.resources("Observation").search(code="2345-7").limit(2))
    next(pages), next(pages)
    fhir.expire_pages()
    with pytest.raises(ResourceNotFound):
        next(pages)


def test_it_overwrites_what_others_change_meanwhile(fhir, ehr):
    """fhirpy saves without If-Match, so it does not notice that the record has changed since it was read."""
    fhir.stale(on="Patient/p1")
    deactivate(ehr, "p1")
    patient = fhir.get("Patient/p1")
    assert (patient["active"], patient["meta"]["versionId"]) == (False, "3")
    assert fhir.get("Patient/p1/_history/2")["meta"]["tag"][0]["code"] == "changed-elsewhere"
