"""`_summary` and `_elements`: a stored text cut down to the elements asked for."""

from __future__ import annotations

from fhir_server.jsontext import Json, decode, render
from fhir_server.search.parse import Shape

SUBSETTED = {
    "system": "http://terminology.hl7.org/CodeSystem/v3-ObservationValue",
    "code": "SUBSETTED",
    "display": "Resource encoded in summary mode",
}


def shaped(text: str, shape: Shape) -> str:
    """The text, or for a shape that cuts the resource down, the rest of it with the tag that says so."""
    if not shape:
        return text
    raise NotImplementedError
