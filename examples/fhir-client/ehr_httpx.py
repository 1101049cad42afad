"""A small EHR client over httpx: the latest value of a laboratory test, and changes that others must not overwrite."""

import httpx


class EhrError(Exception):
    """The EHR could not be reached, or its answer is an error."""


class EhrClient:
    """An EHR client. If the EHR is busy or does not answer, it tries a request up to three times."""

    def __init__(self, client: httpx.Client, tries: int = 3):
        self._client = client
        self._tries = tries

    def latest(self, patient: str, code: str) -> float | None:
        """The latest value of a test; None if there is none."""
        params = {"patient": patient, "code": code, "_sort": "-date", "_count": "1"}
        entries = self._send("GET", "Observation", params=params).json().get("entry", [])
        return entries[0]["resource"]["valueQuantity"]["value"] if entries else None

    def names(self) -> list[str]:
        """The family names of all patients. Reads all pages."""
        families, url = [], "Patient?_sort=family&_count=2"
        while url:
            bundle = self._send("GET", url).json()
            families += [entry["resource"]["name"][0]["family"] for entry in bundle.get("entry", [])]
            url = next((link["url"] for link in bundle["link"] if link["relation"] == "next"), "")
        return families

    def set_phone(self, patient: str, phone: str) -> None:
        """Change the phone number. Raises EhrError if the patient was changed by another client since it was read."""
        read = self._send("GET", f"Patient/{patient}")
        changed = {**read.json(), "telecom": [{"system": "phone", "value": phone}]}
        self._send("PUT", f"Patient/{patient}", json=changed, headers={"If-Match": read.headers["ETag"]})

    def _send(self, method: str, url: str, **options: object) -> httpx.Response:
        for left in reversed(range(self._tries)):
            try:
                response = self._client.request(method, url, **options)
            except httpx.TransportError as error:
                if not left:
                    raise EhrError(f"{method} {url}: {error}") from error
                continue
            if response.status_code not in (429, 503) or not left:
                break
        if response.is_error:
            raise EhrError(f"{method} {url}: {response.status_code}")
        return response
