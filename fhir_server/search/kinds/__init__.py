"""The kinds of search parameters, one module each. A new kind needs a module and a line here."""

from __future__ import annotations

from fhir_server.search.kinds import _composite as composite
from fhir_server.search.kinds import _number as number
from fhir_server.search.kinds import _quantity as quantity
from fhir_server.search.kinds import _special as special
from fhir_server.search.kinds import _token as token
from fhir_server.search.kinds import _uri as uri
from fhir_server.search.kinds import date, reference, string
from fhir_server.search.kinds.kind import Kind

KINDS: dict[str, Kind] = {
    module.KIND.name: module.KIND
    for module in (token, string, date, quantity, number, uri, special, reference, composite)
}

__all__ = ["KINDS", "Kind"]
