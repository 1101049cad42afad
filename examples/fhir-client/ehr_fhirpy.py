"""A small EHR client over fhirpy: who has a high result, and a note that a patient has moved away."""

from fhirpy import SyncFHIRClient


def connected(base: str, timeout: float = 5) -> SyncFHIRClient:
    """A client of the EHR at a FHIR base; it waits `timeout` seconds for an answer."""
    return SyncFHIRClient(base, requests_config={"timeout": timeout})


def high_results(client: SyncFHIRClient, code: str, limit: float) -> dict[str, float]:
    """The highest value of a test of every patient above a limit, page after page, by patient."""
    found: dict[str, float] = {}
    for result in client.resources("Observation").search(code=code).limit(2):
        patient, value = result.subject.reference, result.valueQuantity.value
        if value > limit:
            found[patient] = max(value, found.get(patient, value))
    return found


def deactivate(client: SyncFHIRClient, patient: str) -> None:
    """Mark a patient as no longer looked after here."""
    found = client.reference("Patient", patient).to_resource()
    found["active"] = False
    found.save()
