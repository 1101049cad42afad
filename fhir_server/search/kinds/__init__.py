"""The kinds of search parameters, a module each. A new kind is one more module and one more line here."""

from __future__ import annotations

from fhir_server.search.kinds import composite, date, number, quantity, reference, special, string, token, uri
from fhir_server.search.kinds.kind import Kind

KINDS: dict[str, Kind] = {
    module.KIND.name: module.KIND
    for module in (token, string, date, quantity, number, uri, special, reference, composite)
}

__all__ = ["KINDS", "Kind"]
