"""An embedded FHIR R4 server that answers as HAPI FHIR does. It imports nothing of medagent.

The public names are loaded at their first use, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fhir_server.expressions.errors import FhirPathError, TooCostlyError
    from fhir_server.expressions.library import fhirpath
    from fhir_server.server import Overlay, Server
    from fhir_server.wire.http import Request, Response

__all__ = ["FhirPathError", "Overlay", "Request", "Response", "Server", "TooCostlyError", "fhirpath"]
_HOMES = {
    "FhirPathError": "expressions.errors",
    "Overlay": "server",
    "Request": "wire.http",
    "Response": "wire.http",
    "Server": "server",
    "TooCostlyError": "expressions.errors",
    "fhirpath": "expressions.library",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'fhir_server' has no attribute {name!r}")
    return getattr(import_module(f"fhir_server.{_HOMES[name]}"), name)
