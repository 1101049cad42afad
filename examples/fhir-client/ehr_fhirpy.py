"""A small EHR client over fhirpy: finds patients with a high result, and deactivates a patient."""

from fhirpy import SyncFHIRClient


def connected(base: str, timeout: float = 5) -> SyncFHIRClient:
    """A client for the EHR at a FHIR base; it waits `timeout` seconds for an answer."""
    return SyncFHIRClient(base, requests_config={"timeout": timeout})


def high_results(client: SyncFHIRClient, code: str, limit: float) -> dict[str, float]:
    """The highest value of a test by patient, for patients above a limit. Reads all pages."""
    highest: dict[str, float] = {}
    for result in client.resources("Observation").search(code=code).limit(2):
        patient, value = result.subject.reference, result.valueQuantity.value
        if value > limit:
            highest[patient] = max(value, highest.get(patient, value))
    return highest


def deactivate(client: SyncFHIRClient, patient: str) -> None:
    """Mark a patient as inactive."""
    resource = client.reference("Patient", patient).to_resource()
    resource["active"] = False
    resource.save()
