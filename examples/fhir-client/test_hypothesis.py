"""A property of the httpx client: it returns the latest value, for any values. Each example has its own record."""

import httpx
from ehr_httpx import EhrClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

readings = st.lists(st.tuples(st.integers(1, 500), st.integers(1, 28)), min_size=1, unique_by=lambda pair: pair[1])


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(readings)
def test_the_latest_value_wins(fhir_data, pairs):
    with fhir_data.double({"resourceType": "Patient", "id": "p1"}) as fhir:
        for value, day in pairs:
            fhir.post(
                {
                    "resourceType": "Observation",
                    "status": "final",
                    "code": {"coding": [{"system": "http://loinc.org", "code": "2345-7"}]},
                    "subject": {"reference": "Patient/p1"},
                    "effectiveDateTime": f"2024-05-{day:02}",
                    "valueQuantity": {"value": value, "unit": "mg/dL"},
                }
            )
        with httpx.Client(transport=fhir.transport(), base_url="https://ehr.example.org/r4/") as client:
            latest = EhrClient(client).latest("p1", "2345-7")
    assert latest == max(pairs, key=lambda pair: pair[1])[0]
