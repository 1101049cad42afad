"""Resource types in a URL."""

from __future__ import annotations

from functools import lru_cache

from fhir_server.errors import FhirError
from fhir_server.search.parameters import resource_types


def check_type(kind: str) -> None:
    """Raises HAPI-0302 if `kind` is not a resource type of R4."""
    if kind not in _known():
        raise FhirError(404, _unknown(kind))


@lru_cache(maxsize=1)
def _known() -> frozenset[str]:
    return frozenset(resource_types())


@lru_cache(maxsize=256)
def _unknown(kind: str) -> str:
    known = ", ".join(resource_types())
    return f"HAPI-0302: Unknown resource type '{kind}' - Server knows how to handle: [{known}]"
