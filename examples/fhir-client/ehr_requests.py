"""A small EHR client over requests: records a blood pressure."""

import requests


def record_pressure(session: requests.Session, base: str, patient: str, systolic: int) -> str:
    """Create an Observation and return its id. Raises requests.RequestException."""
    observation = {
        "resourceType": "Observation",
        "status": "final",
        "code": {"coding": [{"system": "http://loinc.org", "code": "8480-6"}]},
        "subject": {"reference": f"Patient/{patient}"},
        "valueQuantity": {"value": systolic, "unit": "mmHg"},
    }
    response = session.post(f"{base}/Observation", json=observation, timeout=5)
    response.raise_for_status()
    return response.json()["id"]
