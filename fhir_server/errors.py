"""The errors of fhir_server: `ServerError` is for the person who runs the server, `FhirError` for the client."""

from __future__ import annotations

ERROR_LENGTH = 500
"""HAPI stores the error of a failed search in a column of this length, and so cuts the message."""


class ServerError(Exception):
    """The server cannot start or a file cannot be used; the text is one line with what to do."""


class WritesElsewhere(Exception):
    """Another process writes to the file: that process must answer the request, or the request must wait for it."""


class FhirError(Exception):
    """Ends a request with an OperationOutcome: HTTP status, issue code, and HAPI's diagnostics.

    `dated`: HAPI notices the error only when it prints the answer, after the header with its date. `allow`: the methods
    in the header `Allow`.
    """

    def __init__(
        self, status: int, diagnostics: str, code: str = "processing", *, dated: bool = False, allow: str = ""
    ) -> None:
        super().__init__(diagnostics)
        self.status = status
        self.diagnostics = diagnostics
        self.code = code
        self.dated = dated
        self.allow = allow
