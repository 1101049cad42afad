"""The errors of fhir_server. `ServerError` is for the person who runs it; `FhirError` is what a client is answered."""

from __future__ import annotations


class ServerError(Exception):
    """The server cannot be started or a file cannot be used; the text is one line that a user can act on."""
